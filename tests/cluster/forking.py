"""A program that uses one app from loops, threads and forks, as servers do.

Run with the URL of a database; prints how many jobs it enqueued and exits with 0.
"""

import asyncio
import os
import sys
import threading
import traceback
from collections.abc import Callable
from typing import Final

from detent import App
from tests.cluster.workload import Workload

THREADS: Final = 8
EACH: Final = 5


def several_loops(workload: Workload) -> int:
    """One loop after the other, as `asyncio.run` in a script makes them."""

    async def enqueue() -> None:
        await asyncio.gather(*(workload.record.enqueue("loop") for _ in range(EACH)))

    for _ in range(3):
        asyncio.run(enqueue())
    return 3 * EACH


def blocking(workload: Workload) -> int:
    """From code that knows no loop."""
    for _ in range(EACH):
        workload.record.enqueue_sync("blocking")
    return EACH


def threads(workload: Workload) -> int:
    """From many threads at once, half of them with a loop of their own."""
    counts: list[int] = []

    def run(number: int) -> None:
        counts.append(several_loops(workload) if number % 2 else blocking(workload))

    running = [threading.Thread(target=run, args=(number,)) for number in range(THREADS)]
    for thread in running:
        thread.start()
    for thread in running:
        thread.join()
    assert len(counts) == THREADS, "a thread died"
    return sum(counts)


def everything(workload: Workload) -> int:
    return several_loops(workload) + blocking(workload) + threads(workload)


def in_child(work: Callable[[], int]) -> int:
    """Fork, do the work there, and return what it returned."""
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        code = 1
        try:
            os.write(writer, str(work()).encode())
            code = 0
        except BaseException:  # noqa: BLE001  nothing may escape into the parent's stack
            traceback.print_exc()
        finally:
            os._exit(code)
    os.close(writer)
    _, status = os.waitpid(child, 0)
    assert status == 0, f"the child ended with {status}"
    answer = os.read(reader, 100)
    os.close(reader)
    return int(answer)


def inside_a_loop(workload: Workload) -> int:
    """Fork while connections of a running loop are open; both sides go on."""

    async def run() -> int:
        async with workload.app:
            await workload.record.enqueue("before")
            count = in_child(lambda: blocking_in_thread(workload))
            # The child must not have said goodbye on the connections that it inherited.
            await workload.record.enqueue("after")
        return count + 2

    return asyncio.run(run())


def blocking_in_thread(workload: Workload) -> int:
    """The child of a loop still believes to run on it; a thread of its own knows nothing of it."""
    counts: list[int] = []
    thread = threading.Thread(target=lambda: counts.append(blocking(workload)))
    thread.start()
    thread.join()
    return counts[0]


def main(url: str) -> None:
    workload = Workload(App(url))
    count = everything(workload)
    count += in_child(lambda: everything(workload))
    count += in_child(lambda: in_child(lambda: blocking(workload)) + blocking(workload))
    count += inside_a_loop(workload)
    count += everything(workload)
    print(count)  # noqa: T201  the answer


if __name__ == "__main__":
    main(sys.argv[1])
