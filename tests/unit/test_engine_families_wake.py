"""If these fail, jobs of a limit by key wait for a look although a node was told of their turn."""

import asyncio
from collections import Counter, defaultdict
from datetime import timedelta

from detent import App, Task
from detent._engine.families import FEW
from detent.testing.simulation.stage import Stage
from detent.testing.virtual import in_virtual_time

KEYS = 2 * FEW
# Looks for what was not told come every 4 s at the earliest.
SOON = 1.0
NOTHING = timedelta(0)


class Doors:
    """Tasks by key, each behind a door that the test opens; what went in is counted."""

    def __init__(self) -> None:
        self.open = defaultdict[str, asyncio.Event](asyncio.Event)
        self.ran = Counter[str]()

    def declare(self, app: App) -> Task[[int, str], None]:
        @app.task(name="work", concurrency=1, concurrency_key=lambda key, door: key)
        async def work(key: int, door: str) -> None:
            self.ran[door] += 1
            await self.open[door].wait()

        return work


@in_virtual_time
async def test_a_family_goes_on_when_its_queue_seems_to_be_resumed() -> None:
    stage = Stage()

    @stage.app.task(concurrency=1, concurrency_key=lambda key: key)
    async def work(key: int) -> None: ...

    @stage.app.task
    async def plain() -> None: ...

    await stage.app.queues.pause("default")
    async with stage.node(queues={"default": 10}):
        await stage.app.enqueue_many([work.bind(key) for key in range(KEYS)])
        await asyncio.sleep(1)
        assert stage.line.count("claim_family") > 0
        began = stage.now
        await stage.app.queues.resume("default")
        # Nobody tells of that; a hint of another job lets the node ask again.
        await plain.enqueue()
        ended = await stage.until(lambda: len(stage.tables.outcome) == KEYS + 1)
    assert ended - began < SOON


@in_virtual_time
async def test_an_end_in_a_family_opens_its_key_in_other_queues() -> None:
    stage, doors = Stage(), Doors()
    work = doors.declare(stage.app)
    # What waits in the family keeps the node from forgetting it.
    crowd = [work.bind(key, "others") for key in range(1, KEYS)]
    await stage.app.enqueue_many([work.bind(0, "first"), *crowd, *crowd])
    async with stage.node(queues={"default": 2 * KEYS, "other": 10}, drain_timeout=NOTHING):
        await stage.until(lambda: doors.ran.total() == KEYS)
        assert stage.line.count("claim_family") > 0
        await work.options(queue="other").enqueue(0, "second")
        await asyncio.sleep(1)
        began = stage.now
        doors.open["first"].set()
        assert await stage.until(lambda: doors.ran["second"]) - began < SOON


@in_virtual_time
async def test_an_end_in_a_family_opens_its_key_in_queues_of_other_nodes() -> None:
    stage, doors = Stage(), Doors()
    here, there = stage.app, stage.new_app()
    work, _ = doors.declare(here), doors.declare(there)
    crowd = [work.bind(key, "others") for key in range(1, KEYS)]
    await here.enqueue_many([work.bind(0, "first"), *crowd, *crowd])
    async with (
        stage.node(here, queues={"default": 2 * KEYS}, drain_timeout=NOTHING),
        stage.node(there, queues={"other": 10}, drain_timeout=NOTHING),
    ):
        await stage.until(lambda: doors.ran.total() == KEYS)
        assert stage.line.count("claim_family") > 0
        await work.options(queue="other").enqueue(0, "second")
        await asyncio.sleep(1)
        began = stage.now
        doors.open["first"].set()
        assert await stage.until(lambda: doors.ran["second"]) - began < SOON


@in_virtual_time
async def test_a_key_that_is_set_apart_hears_of_ends_elsewhere() -> None:
    """One node runs the first of a crowded key while it drains; the other has room for the next."""
    stage, doors = Stage(), Doors()
    here, there = stage.app, stage.new_app()
    work, _ = doors.declare(here), doors.declare(there)
    crowd = [work.bind(key, "others") for key in range(1, KEYS)]
    await here.enqueue_many([work.bind(0, "first"), *crowd, *crowd])
    async with stage.node(here, queues={"default": KEYS}) as leaving:
        await stage.until(lambda: doors.ran.total() == KEYS)
        draining = asyncio.create_task(leaving.drain())
        await here.enqueue_many([work.bind(0, "second") for _ in range(500)])
        await here.enqueue_many([work.bind(KEYS + key, "more") for key in range(KEYS)])
        doors.open["more"].set()
        async with stage.node(there, queues={"default": KEYS}, drain_timeout=NOTHING):
            await stage.until(lambda: doors.ran["more"] == KEYS)
            await asyncio.sleep(1)
            began = stage.now
            doors.open["first"].set()
            assert await stage.until(lambda: doors.ran["second"]) - began < SOON
            doors.open["others"].set()
            await draining
