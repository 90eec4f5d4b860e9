"""A daemon that needs no database: it traces when it runs, so that two at once are seen."""

import asyncio
import os
import time
from itertools import pairwise
from pathlib import Path
from typing import Final, NamedTuple

from detent import App
from detent.daemons import DaemonContext

TRACE: Final = "TRACE_OF_THE_DAEMON"
PAUSE: Final = 0.005

app = App()


@app.daemon(name="alone", restart_delay=0.1, grace="2s")
async def alone(ctx: DaemonContext) -> None:
    """Trace each moment; a run ends with the process, or when it is stopped."""
    path = Path(os.environ[TRACE])
    with path.open("a", encoding="utf-8", buffering=1) as trace:  # noqa: ASYNC230  a local file
        while not ctx.should_stop:
            trace.write(f"{os.getpid()} {ctx.term} {time.monotonic()}\n")
            await asyncio.sleep(PAUSE)


class Run(NamedTuple):
    """One process under one term."""

    began: float
    ended: float
    pid: int
    term: int


def runs(trace: Path) -> list[Run]:
    """Return who ran from when to when, in the order of their beginnings."""
    found: dict[tuple[int, int], Run] = {}
    for line in trace.read_text(encoding="utf-8").splitlines():
        pid, term, at = line.split()
        key = (int(pid), int(term))
        known = found.get(key, Run(float(at), float(at), *key))
        found[key] = known._replace(ended=float(at))
    return sorted(found.values())


def check_alone(trace: Path) -> list[Run]:
    """Fail if two processes ran the daemon at once, or under one term."""
    found = runs(trace)
    for before, after in pairwise(found):
        overlap = before.ended - after.began
        assert overlap < 0 or before.pid == after.pid, f"{overlap:.3f} s: {before} and {after}"
    terms = [run.term for run in found]
    assert terms == sorted(set(terms)), "two processes under one term, or terms that went back"
    return found
