"""If these fail, a program that looks at a job sees bytes, or not which job took its place."""

import asyncio

import pytest

from detent import JobCanceled
from detent.testing.simulation.stage import Stage
from detent.testing.virtual import in_virtual_time


@in_virtual_time
async def test_payloads_are_there_as_values_and_as_bytes() -> None:
    stage = Stage()

    @stage.app.task
    async def halve(number: int) -> float:
        if number % 2:
            raise ValueError("odd")
        return number / 2

    async with stage.node():
        even, odd = await halve.enqueue(4), await halve.options(retry=None).enqueue(3)
        assert await even.result() == 2.0
        info = await even.info()
        assert (info.decoded_result, info.result) == (2.0, b"2.0")
        assert info.decoded_args == {"number": 4} or 4 in info.decoded_args
        assert info.decoded_error is None
        await asyncio.sleep(3600)
        error = (await odd.info()).decoded_error
        assert (error["type"], error["message"]) == ("ValueError", "odd")


@in_virtual_time
async def test_what_replaced_a_job_can_be_looked_up_whether_it_ran_or_not() -> None:
    stage = Stage()

    @stage.app.task
    async def work(number: int) -> int:
        await asyncio.sleep(60)
        return number

    unique = work.options(unique="k", on_conflict="replace")
    waiting = await unique.enqueue(1)
    running = await unique.enqueue(2)
    assert (await waiting.info()).replaced_by == running.id
    async with stage.node():
        await asyncio.sleep(5)
        last = await unique.enqueue(3)
        with pytest.raises(JobCanceled) as told:
            await running.result()
        assert told.value.replaced_by == last.id
        assert (await running.info()).replaced_by == last.id
        assert await last.result() == 3
        assert (await last.info()).replaced_by is None


@in_virtual_time
async def test_an_app_says_more_of_its_nodes() -> None:
    stage = Stage()
    stage.app.node_info["zone"] = "eu-1"
    async with stage.node():
        (node,) = await stage.app.nodes.list()
        assert node.info["zone"] == "eu-1"
