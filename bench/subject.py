"""One step of a measurement, inside the subject's own environment.

    python -m bench.subject MODULE COMMAND [JSON arguments]

The answer is one line of JSON, the last line on standard output.
"""

from __future__ import annotations

import asyncio
import importlib
import itertools
import json
import sys
import time
from collections.abc import Callable, Coroutine
from typing import Any, cast

from bench.adapter import Adapter, run

BULK = 1000


async def install(adapter: Adapter) -> dict[str, Any]:
    await adapter.install()
    return {}


async def fill(adapter: Adapter, jobs: int) -> dict[str, Any]:
    """Put `jobs` jobs into the store by the bulk call."""
    producer = adapter.Producer()
    await producer.open(1, wake=False)
    for low in range(0, jobs, BULK):
        await producer.many(range(low, min(low + BULK, jobs)))
    await producer.close()
    return {"jobs": jobs}


async def enqueue(adapter: Adapter, callers: int, seconds: float) -> dict[str, Any]:
    """Concurrent callers, each awaiting its own job before it enqueues the next."""
    producer = adapter.Producer()
    await producer.open(callers, wake=False)
    await asyncio.gather(*(producer.one(number) for number in range(callers)))
    numbers = itertools.count(callers)
    started = time.perf_counter()

    async def caller() -> int:
        done = 0
        while time.perf_counter() - started < seconds:
            await producer.one(next(numbers))
            done += 1
        return done

    done = sum(await asyncio.gather(*(caller() for _ in range(callers))))
    elapsed = time.perf_counter() - started
    await producer.close()
    return {"jobs": done, "seconds": elapsed, "stored": done + callers}


async def bulk(adapter: Adapter, seconds: float) -> dict[str, Any]:
    """The bulk call, one after the other, 1000 jobs each."""
    producer = adapter.Producer()
    await producer.open(1, wake=False)
    await producer.many(range(BULK))
    done = 0
    started = time.perf_counter()
    while time.perf_counter() - started < seconds:
        await producer.many(range(done, done + BULK))
        done += BULK
    elapsed = time.perf_counter() - started
    await producer.close()
    return {"jobs": done, "seconds": elapsed, "stored": done + BULK}


async def pulse(adapter: Adapter, jobs: int, interval: float) -> dict[str, Any]:
    """Enqueue into an idle system, one job per interval; says when each call began."""
    producer = adapter.Producer()
    await producer.open(1, wake=True)
    sent = []
    for number in range(jobs):
        sent.append(time.monotonic_ns())
        await producer.one(number)
        await asyncio.sleep(interval)
    await asyncio.sleep(1)  # the last one starts before the node is stopped
    await producer.close()
    return {"sent": sent}


async def node(adapter: Adapter) -> dict[str, Any]:
    await adapter.work()
    return {}


COMMANDS: dict[str, Callable[..., Coroutine[Any, Any, dict[str, Any]]]] = {
    "install": install,
    "fill": fill,
    "enqueue": enqueue,
    "bulk": bulk,
    "pulse": pulse,
    "node": node,
}


def main() -> None:
    module, command, *rest = sys.argv[1:]
    adapter = cast("Adapter", importlib.import_module(module))
    arguments = json.loads(rest[0]) if rest else {}
    answer = run(COMMANDS[command](adapter, **arguments))
    print(json.dumps(answer), flush=True)


if __name__ == "__main__":
    main()
