"""If these fail, jobs that crashed twice wait for ever behind jobs that never crashed."""

import asyncio

from detent.testing.simulation.stage import Stage
from detent.testing.virtual import in_virtual_time

SLOTS = 4


@in_virtual_time
async def test_suspects_get_their_turn_on_a_node_that_is_always_full() -> None:
    stage = Stage()
    begun: list[int] = []

    @stage.app.task
    async def work(number: int) -> None:
        begun.append(number)
        await asyncio.sleep(1)

    suspects = [await work.enqueue(-number) for number in range(1, 4)]
    for job_id, place in stage.tables.ready.items():
        stage.tables.ready[job_id] = place._replace(crashes=2, lane=f"{place.lane}+!")
    # Full before the node starts, and twice as many come as can be done.
    await stage.app.enqueue_many([work.bind(0) for _ in range(SLOTS)])
    async with stage.node(queues={"default": SLOTS}):
        for number in range(1, 240):
            await work.enqueue(number)
            await asyncio.sleep(0.125)
        assert stage.tables.ready, "it was full all the time"
        ended = {job.id for job in suspects} & set(stage.tables.outcome)
        assert len(ended) == len(suspects)
    assert begun.index(-3) < 60


@in_virtual_time
async def test_a_node_that_was_not_told_of_a_suspect_takes_no_second_one() -> None:
    stage = Stage()

    @stage.app.task
    async def work() -> None:
        await asyncio.sleep(1)

    for _ in range(3):
        await work.enqueue()
    for job_id, place in stage.tables.ready.items():
        stage.tables.ready[job_id] = place._replace(crashes=5, lane=f"{place.lane}+!")
    held: list[int] = []
    stage.line.lose("claim_jobs", reply=True, times=4)
    stage.line.lose("claims_of", times=4)
    async with stage.node(queues={"default": SLOTS}):
        while len(stage.tables.outcome) < 3:
            held.append(len(stage.tables.running))
            await asyncio.sleep(0.01)
    assert max(held) == 1
