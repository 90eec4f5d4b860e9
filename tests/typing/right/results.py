"""What a task returns is what its job gives back, and what a direct call gives."""

from dataclasses import dataclass
from datetime import datetime
from decimal import Decimal
from typing import reveal_type
from uuid import UUID

from pydantic import BaseModel

from detent import App, Job, JobContext, JobInfo, State, Task

app = App("memory://")


@dataclass
class Order:
    number: int
    paid: bool = False


class Customer(BaseModel):
    name: str
    orders: list[int] = []


@app.task
async def send(to: str, body: str) -> str:
    return to + body


@app.task
def count(words: list[str], least: int | None = None) -> int:
    return len(words) - (least or 0)


@app.task
async def place(ctx: JobContext, order: Order) -> Order:
    ctx.check_canceled()
    return order


@app.task
async def customers(since: datetime, near: UUID | None = None) -> list[Customer]:
    return [Customer(name=f"{since} {near}")]


@app.task
def prices(names: set[str]) -> dict[str, Decimal]:
    return {name: Decimal("1.50") for name in names}


@app.task
async def find(number: int) -> Order | None:
    return Order(number) if number else None


async def results(since: datetime) -> None:
    job = await send.enqueue("ada@example.com", body="hi")
    reveal_type(job)  # Job[str]
    reveal_type(job.id)  # UUID
    reveal_type(job.created)  # bool
    reveal_type(await job.result(timeout=10))  # str
    reveal_type(await job.info())  # JobInfo
    reveal_type(await job.cancel(reason="enough"))  # State

    reveal_type(await (await count.enqueue(["a"])).result())  # int
    reveal_type(await (await place.enqueue(Order(1))).result())  # Order
    reveal_type(await (await customers.enqueue(since)).result())  # list[Customer]
    reveal_type(await (await prices.enqueue({"tea"})).result())  # dict[str, Decimal]
    reveal_type(await (await find.enqueue(7)).result())  # Order | None


def blocking() -> None:
    reveal_type(send.enqueue_sync("ada@example.com", body="hi"))  # Job[str]
    reveal_type(send.options(queue="mail").enqueue_sync("ada@example.com", "hi"))  # Job[str]


async def direct(ctx: JobContext, since: datetime) -> None:
    reveal_type(await send("ada@example.com", body="hi"))  # str
    reveal_type(count(["a"], least=1))  # int
    reveal_type(await place(ctx, Order(1)))  # Order
    reveal_type(await customers(since))  # list[Customer]
    reveal_type(await find(7))  # Order | None


async def bound() -> None:
    calls = [send.bind(name, body="news") for name in ("ada", "grace")]
    reveal_type(calls)  # list[BoundCall[str]]
    reveal_type(await app.enqueue(send.bind("ada", "news")))  # Job[str]
    reveal_type(app.enqueue_sync(count.bind(["a"])))  # Job[int]
    reveal_type(await app.enqueue_many(calls))  # list[Job[str]]
    for job in await app.enqueue_many([send.bind("ada", "news"), count.bind(["a"])]):
        assert isinstance(await job.result(), str | int)


# The public names are enough to write all of it down.

mailer: Task[[str, str], str] = send
typed_job: Job[int] = count.enqueue_sync(["a"])
wider_job: Job[int | None] = typed_job


async def state_of(job: Job[object]) -> State:
    info: JobInfo = await job.info()
    return info.state
