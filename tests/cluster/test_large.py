"""If these fail, large values stop the event loop, or take the memory of the whole machine."""

import asyncio
import resource
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Final

import pytest

from detent import App
from tests.cluster.database import connected

MIB: Final = 1 << 20
TEXT: Final = "x" * (MIB - 2)
"""As JSON it is a MiB, the limit for results and arguments."""
COUNT: Final = 300
LONGEST: Final = 0.1


class Probe:
    """The longest step of an event loop, in seconds of processor time of its thread.

    Other programs on the machine take time from the loop; they take none of this time.
    """

    def __init__(self) -> None:
        self.longest = 0.0

    async def tick(self) -> None:
        before = time.thread_time()
        while True:
            await asyncio.sleep(0)
            now = time.thread_time()
            self.longest = max(self.longest, now - before)
            before = now


@asynccontextmanager
async def probed() -> AsyncIterator[Probe]:
    probe = Probe()
    ticking = asyncio.ensure_future(probe.tick())
    try:
        yield probe
    finally:
        ticking.cancel()


@pytest.mark.parametrize("unique", [False, True])
async def test_large_results_neither_stop_the_loop_nor_fill_the_memory(
    postgres_url: str, unique: bool
) -> None:
    async with App(postgres_url) as app:
        done = asyncio.Event()
        left = COUNT

        @app.task
        async def large(number: int) -> str:
            nonlocal left
            left -= 1
            if not left:
                done.set()
            return TEXT

        if unique:
            for number in range(COUNT):
                await large.options(unique=f"{number}").enqueue(number)
        else:
            await app.enqueue_many([large.bind(number) for number in range(COUNT)])
        before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        async with probed() as probe, asyncio.timeout(240), app.node():
            await done.wait()
            async with connected(postgres_url) as admin:
                while await admin.fetchval("SELECT count(*) FROM detent.detent_outcome") < COUNT:
                    pass
        grown = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before
        assert probe.longest < LONGEST
        assert grown < 2 * COUNT * 1024, "each result is there, and little more"


@pytest.mark.parametrize("many", [False, True])
async def test_large_enqueues_do_not_stop_the_loop(postgres_url: str, many: bool) -> None:
    async with App(postgres_url) as app:

        @app.task
        async def large(text: str) -> None: ...

        await large.enqueue("first")
        text = TEXT[20:]
        async with probed() as probe, asyncio.timeout(240):
            if many:
                await app.enqueue_many([large.bind(text) for _ in range(COUNT)])
            else:
                await asyncio.gather(*(large.enqueue(text) for _ in range(COUNT)))
        assert probe.longest < LONGEST
