"""If these fail, a lone job wakes every node of the cluster, or none."""

import asyncio
from contextlib import AsyncExitStack
from functools import partial
from uuid import UUID

import pytest

from detent import State
from detent._engine.responders import STEP
from detent.notifiers.news import LONE, News
from detent.notifiers.wire import decode, encode
from detent.spi.notifier import AnsweredHint, Hint, Wake, token_of
from detent.spi.store import ClaimRequest
from detent.testing.conformance.builders import new_job
from detent.testing.simulation.stage import Stage
from detent.testing.simulation.store import Call
from detent.testing.virtual import in_virtual_time

STATEMENTS = ("claim_jobs", "next_due", "finish_jobs", "enqueue_jobs")


async def join(stage: Stage, stack: AsyncExitStack, count: int) -> None:
    """Let so many nodes join, and learn of each other."""
    for number in range(count):
        app = stage.new_app()
        app.task(name="work")(_work)
        await stack.enter_async_context(stage.node(app, name=f"node-{number}"))
    await asyncio.sleep(90)


async def _work() -> None:
    pass


def _is_of(node: UUID, call: Call) -> bool:
    request: ClaimRequest = call.args[0]
    return request.node == node


async def statements_of_a_lone_job(nodes: int) -> float:
    """Return how many statements a lone job costs, and make sure that each starts at once."""
    stage = Stage()
    work = stage.app.task(name="work")(_work)
    async with AsyncExitStack() as stack:
        await join(stage, stack, nodes)
        before = [stage.line.count(name) for name in STATEMENTS]
        for _ in range(20):
            began = stage.now
            await (await work.enqueue()).result(timeout=5)
            assert stage.now - began < 0.011, "another node would have come a step later"
            await asyncio.sleep(0.2)
        after = [stage.line.count(name) for name in STATEMENTS]
    return sum(after) / 20 - sum(before) / 20


@in_virtual_time
async def test_a_lone_job_costs_the_same_however_many_nodes_there_are() -> None:
    alone = await statements_of_a_lone_job(1)
    assert await statements_of_a_lone_job(8) <= alone * 1.25
    assert await statements_of_a_lone_job(24) <= alone * 1.25


@in_virtual_time
async def test_a_lone_job_of_a_node_that_does_not_answer_starts_a_step_later() -> None:
    stage = Stage()
    work = stage.app.task(name="work")(_work)
    async with AsyncExitStack() as stack:
        await join(stage, stack, 3)
        for node in (await stage.app.nodes.list())[:2]:
            # It seems to be there, and never claims.
            stage.line.lose("claim_jobs", times=None, matching=partial(_is_of, node.incarnation))
        for _ in range(20):
            began = stage.now
            await (await work.enqueue()).result(timeout=5)
            assert stage.now - began < 2 * STEP + 0.04
            await asyncio.sleep(1)
        stage.line.heal()


@in_virtual_time
async def test_many_jobs_at_once_wake_all_nodes() -> None:
    stage = Stage()

    async def slow() -> None:
        await asyncio.sleep(10)

    task = stage.app.task(name="slow")(slow)
    async with AsyncExitStack() as stack:
        for number in range(4):
            app = stage.new_app()
            app.task(name="slow")(slow)
            await stack.enter_async_context(stage.node(app, name=f"n{number}", concurrency=5))
        await asyncio.sleep(90)
        await stage.app.enqueue_many([task.bind() for _ in range(20)])
        await asyncio.sleep(STEP - 0.001)
        pending = await stage.app.jobs.list(state=State.PENDING)
        assert not pending, "no node waited for another"


def test_tokens_and_answers_pass_the_wire() -> None:
    job = new_job()
    wakes: list[Wake] = [
        Hint("mail", token=7),
        Hint("mail", 3, token=0),
        AnsweredHint("mail", (7, 65_535)),
        AnsweredHint("größe", ()),
    ]
    assert decode(encode(wakes)) == wakes
    assert 0 <= token_of(job.id) < 65_536


@pytest.mark.parametrize("count", [1, LONE, LONE + 1, 3 * LONE])
def test_a_stream_of_lone_jobs_is_one_hint_to_all(count: int) -> None:
    news = News()
    for token in range(count):
        news.add([Hint("mail", token=token)])
    hints = news.take()
    if count <= LONE:
        assert hints == [Hint("mail", token=token) for token in range(count)]
    else:
        assert Hint("mail") in hints
        assert len(hints) <= 1 + LONE
    assert not news
