"""If these fail, one message is as large as all that waits, or one turn of the loop takes long."""

import asyncio
from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from detent import JobContext
from detent.codecs import JsonCodec
from detent.errors import InvalidArguments
from detent.model.batches import batches
from detent.pace import TURN, Pace
from detent.testing.simulation.stage import Stage
from detent.testing.virtual import in_virtual_time


@given(st.lists(st.integers(0, 50)), st.integers(1, 10), st.integers(1, 100))
def test_batches_hold_everything_and_never_too_much(
    sizes: list[int], most: int, limit: int
) -> None:
    found = list(batches(sizes, lambda size: size, most, limit))
    assert [size for batch in found for size in batch] == sizes
    for batch in found:
        assert 0 < len(batch) <= most
        assert sum(batch) <= limit or len(batch) == 1
    for batch, after in pairwise(found):
        assert len(batch) == most or sum(batch) + after[0] > limit, "as few as possible"


class Turns:
    """Counts how many are let through in each turn of the loop."""

    def __init__(self, pace: Pace) -> None:
        self.turns: list[list[int]] = [[]]
        self._pace = pace

    async def come(self, number: int, size: int) -> None:
        if self._pace.spent:
            await self._pace.turn()
        self.turns[-1].append(number)
        if size:
            self._pace.spend(size)

    async def count(self) -> None:
        while True:
            await asyncio.sleep(0)
            self.turns.append([])


async def let_through(pace: Pace, sizes: Sequence[int]) -> list[list[int]]:
    turns = Turns(pace)
    counting = asyncio.ensure_future(turns.count())
    await asyncio.gather(*(turns.come(*entry) for entry in enumerate(sizes)))
    counting.cancel()
    return [turn for turn in turns.turns if turn]


async def test_large_values_take_turns_in_their_order() -> None:
    turns = await let_through(Pace(), [TURN] * 20)
    assert [number for turn in turns for number in turn] == list(range(20))
    assert max(map(len, turns)) <= 2


async def test_small_values_pass_at_once() -> None:
    assert await let_through(Pace(), [0] * 20) == [list(range(20))]


async def test_one_that_gives_up_its_turn_holds_up_nobody() -> None:
    pace = Pace()
    pace.spend(TURN)
    waiting = [asyncio.ensure_future(pace.turn()) for _ in range(3)]
    await asyncio.sleep(0)
    waiting[0].cancel()
    async with asyncio.timeout(10):
        await asyncio.gather(*waiting[1:])


@in_virtual_time
async def test_long_log_lines_are_written_in_parts() -> None:
    stage = Stage()

    @stage.app.task
    async def talk(ctx: JobContext) -> None:
        for number in range(400):
            line = f"{number} {'x' * 8_000}"
            ctx.log.info(line)

    async with stage.node():
        job = await talk.enqueue()
        await job.result(timeout=60)
    calls = [call for call in stage.line.calls if call.statement == "append_log"]
    sizes = [sum(len(line.message) for line in call.args[1]) for call in calls]
    assert max(sizes) <= 1 << 20
    lines = [line.message.split()[0] for call in calls for line in call.args[1]]
    assert lines == [str(number) for number in range(400)]


@pytest.mark.parametrize(
    "value",
    [
        float("nan"),
        "\0",
        "\ud800",
        [1, [2, {"a": "\0"}]],
        {"\0": 1},
        {"a": (1.0, float("inf"))},
        [[[[]]]],
    ],
    ids=repr,
)
def test_the_quick_look_at_values_lets_nothing_pass(value: Any) -> None:
    with pytest.raises(InvalidArguments):
        JsonCodec(max_depth=3).encode(value)
