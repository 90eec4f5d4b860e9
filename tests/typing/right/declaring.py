"""However a task is declared, checkers know what callers pass, and what comes back."""

from datetime import timedelta
from typing import Any, reveal_type

from detent import App, JobContext, Priority, Retry

app = App("memory://")


@app.task
async def bare(to: str) -> str:
    return to


@app.task()
async def empty(to: str) -> str:
    return to


@app.task(
    name="mail.send",
    queue="mail",
    priority=Priority.HIGH,
    retry=Retry(max_attempts=5),
    timeout=30,
    needs="smtp",
    tags=["mail"],
    strict_result=True,
)
async def full(to: str) -> str:
    return to


@app.task
def blocking(to: str) -> str:
    return to


@app.task(executor="thread", timeout=timedelta(seconds=1), needs=["gpu", "big"], priority=4)
def blocking_full(to: str) -> str:
    return to


def of_somebody_else(to: str) -> str:
    return to


later = app.task(of_somebody_else)
much_later = app.task(queue="mail")(of_somebody_else)

reveal_type(bare)  # Declared[[to: str], str, [to: str], Coroutine[Any, Any, str]]
reveal_type(empty)  # Declared[[to: str], str, [to: str], Coroutine[Any, Any, str]]
reveal_type(full)  # Declared[[to: str], str, [to: str], Coroutine[Any, Any, str]]
reveal_type(blocking)  # Declared[[to: str], str, [to: str], str]
reveal_type(blocking_full)  # Declared[[to: str], str, [to: str], str]
reveal_type(later)  # Declared[[to: str], str, [to: str], str]
reveal_type(much_later)  # Declared[[to: str], str, [to: str], str]


# The context is the engine's to give: callers do not see it.


@app.task
async def watched(ctx: JobContext, to: str) -> str:
    ctx.log.info(to)
    return to


@app.task(queue="mail")
async def watched_full(ctx: JobContext, to: str) -> str:
    ctx.log.info(to)
    return to


@app.task
def blocking_watched(ctx: JobContext, to: str) -> str:
    ctx.check_canceled()
    return to


@app.task
async def alone(ctx: JobContext) -> None:
    await ctx.progress(0.5, "half")


reveal_type(watched)  # Declared[[to: str], str, [JobContext, to: str], Coroutine[Any, Any, str]]
reveal_type(watched_full.bind)  # (to: str) -> BoundCall[str]
reveal_type(blocking_watched)  # Declared[[to: str], str, [JobContext, to: str], str]
reveal_type(alone.bind)  # () -> BoundCall[None]


# Every kind of parameter. Before `**names` the context is positional only: `ctx` may be a name.


@app.task
async def spread(*numbers: int, **names: str) -> int:
    return sum(numbers) + len(names)


@app.task
async def watched_spread(ctx: JobContext, /, *numbers: int, **names: str) -> int:
    return sum(numbers) + len(names) + ctx.attempt


@app.task
async def picky(first: int, /, second: int = 2, *, third: int | None = None) -> int:
    return first + second + (third or 0)


@app.task
def nothing() -> None: ...


reveal_type(spread.bind)  # (*numbers: int, **names: str) -> BoundCall[int]
reveal_type(watched_spread.bind)  # (*numbers: int, **names: str) -> BoundCall[int]
reveal_type(nothing.bind)  # () -> BoundCall[None]


# `Any` inside a signature does not switch the rest of it off.


@app.task
async def loose(data: dict[str, Any], limit: int) -> dict[str, Any]:
    return {key: data[key] for key in sorted(data)[:limit]}


@app.task
def blocking_loose(data: dict[str, Any], limit: int) -> list[Any]:
    return list(data.values())[:limit]


reveal_type(loose.bind)  # (data: dict[str, Any], limit: int) -> BoundCall[dict[str, Any]]
reveal_type(blocking_loose.bind)  # (data: dict[str, Any], limit: int) -> BoundCall[list[Any]]


# What takes anything would take a context too: nothing is checked, and nothing is refused.


@app.task
async def anything(value: object, limit: int) -> str:
    return str(value)[:limit]


@app.task
async def any_value(value: Any, limit: int) -> str:
    return str(value)[:limit]


reveal_type(anything.bind)  # (...) -> BoundCall[str]


# mypy cannot tell which overload an `Any` behind a context means, and lets everything pass.


@app.task
async def watched_loose(ctx: JobContext, data: dict[str, Any]) -> dict[str, Any]:
    ctx.check_canceled()
    return data


async def calls() -> None:
    await spread.enqueue()
    await spread.enqueue(1, 2, 3, a="x", b="y")
    await watched_spread.enqueue(1, 2, a="x")
    await picky.enqueue(1)
    await picky.enqueue(1, 3, third=None)
    await picky.enqueue(1, second=3, third=4)
    await alone.enqueue()
    await nothing.enqueue()
    await anything.enqueue({"a": 1}, limit=3)
    await anything.enqueue(value="a", limit=3)
    await any_value.enqueue({"a": 1}, limit=3)
    await any_value.enqueue(value="a", limit=3)
    await watched_loose.enqueue({"a": 1})
    await watched_loose.options(queue="mail").enqueue(data={"a": 1})
