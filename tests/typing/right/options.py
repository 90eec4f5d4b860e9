"""Options for one call, filters and listeners have types of their own."""

from datetime import UTC, datetime, timedelta
from typing import reveal_type

from detent import App, Priority, Retry, State, events

app = App("memory://")


@app.task
async def send(to: str, body: str = "") -> str:
    return to + body


async def options() -> None:
    later = send.options(delay=timedelta(minutes=5), queue="bulk", priority=Priority.LOW)
    reveal_type(await later.enqueue("ada"))  # Job[str]
    reveal_type(later.bind("ada", body="hi"))  # BoundCall[str]
    await send.options(at=datetime(2040, 1, 1, tzinfo=UTC), timeout=1.5).enqueue("ada")
    await send.options(timeout=timedelta(minutes=1), retry=Retry(max_attempts=1)).enqueue("ada")
    await send.options(tags=("a", "b"), params={"source": "ftp"}, needs="gpu").enqueue("ada")
    await send.options(needs=["gpu", "big"], key="k", key_ttl=timedelta(1)).enqueue("ada")
    await send.options(unique="u", on_conflict="replace", within=None).enqueue("ada")


async def filters() -> None:
    reveal_type(await app.jobs.list(state="failed", task="send", limit=5))  # list[JobInfo]
    reveal_type(await app.jobs.cancel_all(tag="spring", reason="over"))  # int
    reveal_type(await app.jobs.retry_all(state=[State.FAILED, "canceled"]))  # int
    reveal_type(await app.jobs.delete_all(until=datetime.now(UTC)))  # int
    async for info in app.jobs.each(queue="mail", since=datetime.now(UTC)):
        reveal_type(info)  # JobInfo


@app.on_start
async def connect() -> None: ...


def report(event: events.JobDied) -> None:
    assert event.error


app.on(events.JobDied, report)


async def nodes() -> None:
    async with app, app.node(queues={"mail": 20}, drain_timeout=timedelta(seconds=5)) as node:
        reveal_type(node.id)  # UUID | None
