"""If these fail, callers that give up cost a connection each, or wait for what they gave up."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from detent.stores.postgres.unbroken import Unbroken
from detent.testing.virtual import in_virtual_time


class Statement:
    """Work in two steps of a second each, as the driver does it: it waits for futures."""

    def __init__(self) -> None:
        self.steps: list[str] = []
        self.ended: list[BaseException | None] = []
        self.error: Exception | None = None

    async def run(self) -> str:
        for name in ("prepare", "execute"):
            self.steps.append(name)
            await self.answer()
            await asyncio.sleep(0)
        if self.error is not None:
            raise self.error
        return "rows"

    async def answer(self) -> None:
        loop = asyncio.get_running_loop()
        self.waiter: asyncio.Future[None] = loop.create_future()
        loop.call_later(1, _tell, self.waiter)
        await self.waiter

    def unbroken(self) -> "Unbroken[str]":
        return Unbroken(self.run(), self.ended.append)


def _tell(waiter: "asyncio.Future[None]") -> None:
    if not waiter.done():
        waiter.set_result(None)


async def awaited(work: Awaitable[Any]) -> Any:
    return await work


@in_virtual_time
async def test_a_caller_is_given_what_the_work_returns() -> None:
    statement = Statement()
    assert await statement.unbroken() == "rows"
    assert statement.ended == [], "its caller has seen the end"


@in_virtual_time
async def test_a_caller_is_given_the_error_of_the_work() -> None:
    statement = Statement()
    statement.error = ValueError("no")
    with pytest.raises(ValueError, match="no"):
        await statement.unbroken()
    assert statement.ended == []


@in_virtual_time
async def test_the_work_finds_the_error_of_what_it_waits_for() -> None:
    statement = Statement()
    call = asyncio.ensure_future(awaited(statement.unbroken()))
    await asyncio.sleep(0.5)
    statement.waiter.set_exception(OSError("gone"))
    with pytest.raises(OSError, match="gone"):
        await call
    assert statement.ended == []


@in_virtual_time
@pytest.mark.parametrize("moment", [0.5, 1.0, 1.5, 2.0])
async def test_work_goes_on_when_its_caller_gives_up(moment: float) -> None:
    """Also at the moment at which an answer comes."""
    statement = Statement()
    work = statement.unbroken()
    call = asyncio.ensure_future(awaited(work))
    await asyncio.sleep(moment)
    call.cancel()
    before = asyncio.get_running_loop().time()
    await asyncio.wait([call])
    assert asyncio.get_running_loop().time() == before, "the caller does not wait for the work"
    await asyncio.sleep(3)
    assert call.cancelled()
    assert work.left
    assert statement.steps == ["prepare", "execute"]
    assert statement.ended == [None]


@in_virtual_time
async def test_the_error_of_work_that_was_left_is_told() -> None:
    statement = Statement()
    statement.error = ValueError("no")
    call = asyncio.ensure_future(awaited(statement.unbroken()))
    await asyncio.sleep(0.5)
    call.cancel()
    await asyncio.sleep(3)
    assert statement.ended == [statement.error]


@in_virtual_time
async def test_a_caller_may_have_a_timeout() -> None:
    statement = Statement()
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(0.5):
            await statement.unbroken()
    assert asyncio.get_running_loop().time() == 0.5
    await asyncio.sleep(3)
    assert statement.ended == [None]


@in_virtual_time
async def test_what_the_work_waits_for_may_be_canceled_by_others() -> None:
    statement = Statement()
    work = statement.unbroken()
    call = asyncio.ensure_future(awaited(work))
    await asyncio.sleep(0.5)
    statement.waiter.cancel()
    await asyncio.wait([call])
    assert call.cancelled()
    assert not work.left
    assert statement.ended == [], "the caller has seen the end"


@in_virtual_time
@pytest.mark.parametrize("cancel", [lambda call: call.cancel(), lambda call: call.cancel("why")])
async def test_canceling_twice_is_canceling_once(cancel: Callable[[Any], None]) -> None:
    statement = Statement()
    call = asyncio.ensure_future(awaited(statement.unbroken()))
    await asyncio.sleep(0.5)
    cancel(call)
    cancel(call)
    await asyncio.sleep(3)
    assert call.cancelled()
    assert statement.ended == [None]
