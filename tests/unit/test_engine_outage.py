"""If these fail, work rests long after the store has come back: pauses have grown meanwhile."""

import asyncio

import pytest

from detent.events import StoreRecovered, StoreTrouble
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
