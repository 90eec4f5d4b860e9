"""Arguments that do not fit are refused, whatever way they take to the job."""

from dataclasses import dataclass
from typing import Any

from detent import App, JobContext

app = App("memory://")


@dataclass
class Order:
    number: int


@app.task
async def send(to: str, body: str = "") -> str:
    return to + body


@app.task(queue="numbers")
def count(words: list[str], *, least: int | None = None) -> int:
    return len(words) - (least or 0)


@app.task
async def place(ctx: JobContext, order: Order) -> Order:
    ctx.check_canceled()
    return order


@app.task
async def spread(*numbers: int, **names: str) -> int:
    return sum(numbers) + len(names)


@app.task
async def loose(data: dict[str, Any], limit: int) -> dict[str, Any]:
    return {key: data[key] for key in sorted(data)[:limit]}


async def enqueue(ctx: JobContext) -> None:
    await send.enqueue(1)  # error: wrong type
    await send.enqueue("ada", body=None)  # error: wrong type by keyword
    await send.enqueue()  # error: missing
    await send.enqueue("ada", "hi", "ho")  # error: too many
    await send.enqueue("ada", boddy="hi")  # error: no such keyword
    await send.enqueue("ada", to="grace")  # error: twice
    await count.enqueue(["a", 1])  # error: wrong type inside
    await count.enqueue(["a"], 1)  # error: by keyword only
    await count.enqueue(["a"], least="1")  # error: neither int nor None
    await place.enqueue({"number": 1})  # error: not an Order
    await place.enqueue(ctx, Order(1))  # error: the context is not the caller's to pass
    await place.enqueue(Order(1), ctx=ctx)  # error: nor by keyword
    await spread.enqueue(1, "2")  # error: one of many
    await spread.enqueue(1, two=2)  # error: one of many by keyword
    await loose.enqueue({"a": 1}, "3")  # error: checked beside an Any
    await loose.enqueue([1], 3)  # error: Any is the value, not the whole


def blocking() -> None:
    send.enqueue_sync(1)  # error: wrong type
    send.options(queue="mail").enqueue_sync("ada", boddy="hi")  # error: no such keyword


async def options() -> None:
    await send.options(queue="mail").enqueue(1)  # error: wrong type
    await send.options(queue="mail").enqueue()  # error: missing
    await place.options(queue="mail").enqueue(Order(1), 2)  # error: too many


async def bound() -> None:
    send.bind(1)  # error: wrong type
    send.options(key="a").bind("ada", 2)  # error: wrong type
    await app.enqueue(send)  # error: a task is not a call of it
    await app.enqueue_many([send.bind("ada"), send.bind()])  # error: missing
    await app.enqueue_many([("ada", "hi")])  # error: not bound to a task


async def direct() -> None:
    await send(1)  # error: wrong type
    await send("ada", boddy="hi")  # error: no such keyword
    count()  # error: missing
    await place(Order(1))  # error: a direct call needs the context
