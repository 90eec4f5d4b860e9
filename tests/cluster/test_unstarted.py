"""If these fail, jobs wait for a thread of a busy node while another one is idle."""

import asyncio
import threading
from collections.abc import AsyncIterator, Sequence
from contextlib import AsyncExitStack
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from detent import App, Job, State
from detent.config import Config, NodeConfig
from tests.cluster.database import until

PATIENCE = 20.0


class Workshop:
    """Apps of one database whose task keeps a thread until the test is over."""

    def __init__(self, url: str) -> None:
        self._url = url
        self.over = threading.Event()
        self.begun: dict[int, str] = {}
        """The number of each job that has begun, and the node that it runs on."""

    async def until_begun(self, number: int) -> None:
        async def so_many() -> bool:
            return len(self.begun) == number

        await until(so_many, f"{number} jobs have begun")

    def app(self, name: str, threads: int) -> App:
        config = Config.load(self._url)
        node = NodeConfig(name=name, concurrency=10, threads=threads)
        app = App(config=replace(config, node=node))

        @app.task(name="keep_a_thread")
        def keep_a_thread(number: int) -> None:
            self.begun[number] = name
            assert self.over.wait(PATIENCE * 2)

        @app.task(name="on_the_loop")
        async def on_the_loop() -> None:
            """Need no thread: so the node does not know that it can only run so many."""

        return app


@pytest.fixture(params=["sqlite", "postgres"])
def url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    if request.param == "sqlite":
        return f"sqlite:///{tmp_path / 'detent.db'}"
    postgres_url: str = request.getfixturevalue("postgres_url")
    return postgres_url


@pytest.fixture
async def workshop(url: str) -> AsyncIterator[Workshop]:
    workshop = Workshop(url)
    yield workshop
    workshop.over.set()


async def until_states(jobs: Sequence[Job[Any]], state: State) -> None:
    async def all_are() -> bool:
        return {(await job.info()).state for job in jobs} == {state}

    await until(all_are, f"{len(jobs)} jobs are {state}")


async def test_jobs_that_wait_for_a_thread_go_to_an_idle_node(workshop: Workshop) -> None:
    busy, idle = workshop.app("busy", threads=1), workshop.app("idle", threads=4)
    async with AsyncExitStack() as stack:
        await stack.enter_async_context(busy)
        await stack.enter_async_context(idle)
        stack.callback(workshop.over.set)
        await stack.enter_async_context(busy.node())
        task = busy.tasks.get("keep_a_thread")
        jobs = await busy.enqueue_many([task.bind(number) for number in range(3)])
        await workshop.until_begun(1)
        await until_states(jobs, State.RUNNING)
        await stack.enter_async_context(idle.node())
        joined = asyncio.get_running_loop().time()
        await workshop.until_begun(3)
        assert asyncio.get_running_loop().time() - joined < 6, "two seconds, and a slow machine"
        assert workshop.begun == {0: "busy", 1: "idle", 2: "idle"}
        assert {(await job.info()).attempt for job in jobs} == {1}
        workshop.over.set()
        for job in jobs:
            await job.result(timeout=PATIENCE)


async def test_a_node_that_is_drained_from_outside_begins_nothing_and_leaves(
    workshop: Workshop,
) -> None:
    here, outside = workshop.app("here", threads=1), workshop.app("outside", threads=1)
    async with AsyncExitStack() as stack:
        await stack.enter_async_context(here)
        await stack.enter_async_context(outside)
        stack.callback(workshop.over.set)
        node = await stack.enter_async_context(here.node())
        task = here.tasks.get("keep_a_thread")
        jobs = await here.enqueue_many([task.bind(number) for number in range(3)])
        await workshop.until_begun(1)
        await until_states(jobs, State.RUNNING)
        await outside.nodes.drain("here")
        await until_states(jobs[1:], State.PENDING)
        workshop.over.set()
        async with asyncio.timeout(PATIENCE):
            await node.wait_stopped()
        assert await outside.nodes.list() == []
        assert workshop.begun == {0: "here"}
        assert (await jobs[0].info()).state is State.SUCCEEDED
