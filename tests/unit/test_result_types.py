"""If these fail, `Job[Order].result()` gives a caller something that is no Order."""

import functools
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from datetime import UTC, datetime
from decimal import Decimal
from enum import StrEnum
from typing import cast
from uuid import UUID

import pytest
from pydantic import BaseModel

from detent import InvalidResult
from detent.testing.simulation.stage import Stage
from detent.testing.virtual import in_virtual_time


@dataclass
class Order:
    number: int
    placed: datetime


class Customer(BaseModel):
    name: str
    id: UUID


class Color(StrEnum):
    RED = "red"


WHEN = datetime(2030, 1, 2, 3, 4, tzinfo=UTC)
ID = UUID(int=7)


def order() -> Order:
    return Order(1, WHEN)


async def place_order() -> Order:
    return order()


def customers() -> list[Customer]:
    return [Customer(name="Ada", id=ID)]


def prices() -> dict[Color, Decimal]:
    return {Color.RED: Decimal("1.50")}


def pair() -> tuple[int, set[str]]:
    return 1, {"a"}


def maybe() -> Order | None:
    return Order(2, WHEN)


def no_order() -> Order | None:
    return None


def anything() -> object:
    return {"a": [1, 2]}


def nested_anything() -> dict[str, object]:
    return {"a": [1, 2]}


@pytest.mark.parametrize(
    "function",
    [order, customers, prices, pair, maybe, no_order, anything, nested_anything],
    ids=lambda function: function.__name__,
)
def test_a_result_comes_back_as_what_the_task_returned(function: Callable[[], object]) -> None:
    @in_virtual_time
    async def test() -> None:
        stage = Stage()

        @stage.app.task
        @functools.wraps(function)
        async def task() -> object:
            return function()

        async with stage.node():
            for job in (await task.enqueue(), *await stage.app.enqueue_many([task.bind()])):
                assert await job.result(timeout=5) == function()

    test()


@in_virtual_time
async def test_a_keyed_job_knows_its_result_type_too() -> None:
    stage = Stage()
    task = stage.app.task(place_order)
    async with stage.node():
        first = await task.options(key="k").enqueue()
        again = await task.options(key="k").enqueue()
        assert not again.created
        assert [await job.result(timeout=5) for job in (first, again)] == [order(), order()]


@in_virtual_time
async def test_by_its_id_alone_a_result_is_plain_json() -> None:
    stage = Stage()
    task = stage.app.task(place_order)
    async with stage.node():
        job = await task.enqueue()
        plain = await stage.app.jobs.result(job.id, timeout=5)
        assert plain == {"number": 1, "placed": "2030-01-02T03:04:00Z"}
        assert await stage.app.jobs.result(job.id, type_=Order) == order()


@in_virtual_time
async def test_a_result_that_breaks_the_promise_is_an_error_that_says_so() -> None:
    stage = Stage()

    @stage.app.task
    async def promise() -> int:
        return cast("int", "seven")

    async with stage.node():
        job = await promise.enqueue()
        with pytest.raises(InvalidResult, match="Expected `int`, got `str`") as raised:
            await job.result(timeout=5)
        assert raised.value.job_id == job.id


@in_virtual_time
async def test_what_json_cannot_promise_is_given_as_it_is() -> None:
    stage = Stage()

    @stage.app.task
    async def numbers() -> Iterable[int]:
        return [1, 2]

    @stage.app.task
    async def odd() -> list[Iterable[int]] | None:
        return [[1, 2]]

    @stage.app.task
    async def quiet() -> None:
        return cast("None", "loud")  # as `ctx.set_result` may give a result

    async with stage.node():
        assert list(await (await numbers.enqueue()).result(timeout=5)) == [1, 2]
        assert await (await odd.enqueue()).result(timeout=5) == [[1, 2]]
        assert await stage.app.jobs.result((await quiet.enqueue()).id, timeout=5) == "loud"


@in_virtual_time
async def test_parameters_that_take_anything_take_it() -> None:
    stage = Stage()

    @stage.app.task
    async def echo(data: dict[str, object], extra: object = None) -> list[object]:
        return [data, extra]

    async with stage.node():
        job = await echo.enqueue({"a": {"b": 1}}, extra=[2])
        assert await job.result(timeout=5) == [{"a": {"b": 1}}, [2]]


def test_options_of_a_declaration_can_be_given_in_steps() -> None:
    stage = Stage()
    mail = stage.app.task(queue="mail")
    task = mail(tags=["daily"])(order)
    assert task.options_declared.queue == "mail"
    assert task.options_declared.tags == ("daily",)
    assert mail(customers).options_declared.tags == ()
    assert task() == order(), "calling a task just runs the function"
