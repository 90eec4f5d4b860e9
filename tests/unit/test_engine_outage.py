"""If these fail, work rests long after the store has come back: pauses have grown meanwhile."""

import asyncio
from collections.abc import Callable
from contextlib import suppress
from typing import Any

import pytest

from detent.errors import StoreError
from detent.events import StoreRecovered, StoreTrouble, WakeupsLost, WakeupsRestored
from detent.notifiers.endurance import listen_for_ever
from detent.stores.memory import MemoryNotifier
from detent.testing.simulation.stage import Stage
from detent.testing.virtual import in_virtual_time


@pytest.mark.parametrize("outage", [3.0, 9.0, 60.0])
def test_all_services_go_on_when_one_had_an_answer(outage: float) -> None:
    """After 3 s no heartbeat may have failed; after 60 s the node has fenced itself."""

    @in_virtual_time
    async def test() -> None:
        stage = Stage()

        @stage.app.task
        async def work() -> None: ...

        async with stage.node():
            await (await work.enqueue()).result(timeout=5)
            stage.line.lose(None, times=None)
            await asyncio.sleep(outage)
            stage.line.heal()
            healed = stage.now
            job = await work.enqueue()
            await stage.until(lambda: job.id in stage.tables.outcome)
            assert stage.now - healed < 2.5, "a fenced node asks every 1.5 s"
            await asyncio.sleep(3.0 - (stage.now - healed))
            troubled = {event.where for event in stage.told(StoreTrouble)}
            assert troubled
            assert {event.where for event in stage.told(StoreRecovered)} == troubled

    test()


@pytest.mark.parametrize("work_before", [1.0, 13.0])
def test_no_service_says_that_the_store_answers_while_it_does_not(work_before: float) -> None:
    """It would wake all others, for nothing, and the log would say the opposite of the truth."""

    @in_virtual_time
    async def test() -> None:
        stage = Stage()
        app = stage.app
        app.limit("few", concurrency=2)
        app.breaker("shaky")
        app.sink("everything", lambda _event: None)

        @app.task(resource="few", breaker="shaky")
        async def work() -> None:
            await asyncio.sleep(0.5)

        async def bring() -> None:
            while True:
                with suppress(StoreError):
                    await work.enqueue()
                await asyncio.sleep(0.1)

        async with stage.node() as node:
            bringing = asyncio.create_task(bring())
            await asyncio.sleep(work_before)
            stage.line.lose(None, times=None)
            for _ in range(30):
                # Wake-ups may come by another way than answers.
                node._receive(())
                await asyncio.sleep(1)
            assert stage.told(StoreTrouble)
            assert stage.told(StoreRecovered) == []
            bringing.cancel()
            stage.line.heal()
            await stage.until(lambda: not stage.tables.ready and not stage.tables.running)
            await asyncio.sleep(60)
            troubled = {event.where for event in stage.told(StoreTrouble)} - {"pruner"}
            assert {event.where for event in stage.told(StoreRecovered)} >= troubled

    test()


@pytest.mark.parametrize("troubled, other", [("gates", "claimer"), ("claimer", "gates")])
def test_who_has_not_asked_has_no_answer(troubled: str, other: str) -> None:
    """All room, or the whole queue, is with the other one, whose claim is on its way for long."""
    calls = {"gates": ("claim_gated", "gated_lanes"), "claimer": ("claim_jobs", "next_due")}

    @in_virtual_time
    async def test() -> None:
        stage = Stage()
        stage.app.limit("few", concurrency=2)

        @stage.app.task
        async def plain() -> None: ...

        @stage.app.task(resource="few")
        async def limited() -> None: ...

        tasks = {"gates": limited, "claimer": plain}
        async with stage.node(concurrency=2):
            await (await limited.enqueue()).result(timeout=5)
            for statement in calls[troubled]:
                stage.line.lose(statement, times=None)
            first = await tasks[troubled].enqueue()
            await stage.until(lambda: stage.told(StoreTrouble))
            held = stage.line.hold(calls[other][0])
            second = await tasks[other].enqueue()
            await asyncio.sleep(8)  # less than makes the node fence itself
            assert StoreRecovered(troubled) not in stage.told(StoreRecovered)
            stage.line.heal()
            held.set()
            for job in (first, second):
                await job.result(timeout=60)
            assert StoreRecovered(troubled) in stage.told(StoreRecovered)

    test()


class Line(MemoryNotifier):
    """Wake-ups by way of the store: none arrive while it is away."""

    def __init__(self) -> None:
        super().__init__()
        self.cut = asyncio.Event()

    async def listen(self, receive: Any) -> None:
        async def session(connected: Callable[[], None]) -> None:
            await asyncio.sleep(0.01)
            if self.cut.is_set():
                raise ConnectionError("refused")
            connected()
            listening = asyncio.create_task(MemoryNotifier.listen(self, receive))
            await self.cut.wait()
            listening.cancel()

        await listen_for_ever(session, receive, (ConnectionError,))


@pytest.mark.parametrize("outage", [5.0, 30.0, 33.0, 36.0])
def test_wake_ups_come_back_with_the_store(outage: float) -> None:
    """A listener that waits for its next try lets jobs wait for polls, which are rare by then."""

    @in_virtual_time
    async def test() -> None:
        stage = Stage()
        line = stage.notifier = Line()
        stage.app = stage.new_app()
        async with stage.node():
            await asyncio.sleep(1)
            line.cut.set()
            stage.line.lose(None, times=None)
            await asyncio.sleep(outage)
            assert stage.told(WakeupsLost)
            stage.line.heal()
            line.cut.clear()
            await stage.until(lambda: stage.told(WakeupsRestored), limit=3.5)

    test()
