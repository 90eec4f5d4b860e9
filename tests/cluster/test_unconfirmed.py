"""If these fail, a job that was acknowledged in synchronous mode is gone with its primary.

The standby stands still, so every commit waits for it. The session of the first call is ended by an
operator: its row is stored on the primary and nowhere else. Whatever is answered about that row
before the standby has it could be lost.
"""

import asyncio
import os
import signal
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager
from typing import Any, Final

import asyncpg
import pytest

from detent import App
from detent.errors import KeyTaken
from detent.stores.postgres.migrations import migrate
from tests.cluster.database import connected, until
from tests.cluster.replication import Pair

SILENCE: Final = 1.0
"""An answer that waits for nobody comes far sooner."""

WAITING: Final = """
SELECT pid FROM pg_stat_activity WHERE wait_event = 'SyncRep' AND application_name = 'detent'
"""


@pytest.fixture(scope="module")
def pair() -> Iterator[Pair]:
    with Pair() as pair:
        pair.primary.create_database("jobs")
        asyncio.run(migrate(pair.primary.url("jobs")))
        yield pair


@asynccontextmanager
async def standing_still(pair: Pair) -> AsyncIterator[None]:
    """Let the standby receive nothing meanwhile."""
    async with connected(pair.standby.url()) as standby:
        receiver = await standby.fetchval("SELECT pid FROM pg_stat_wal_receiver")
    os.kill(receiver, signal.SIGSTOP)
    try:
        yield
    finally:
        os.kill(receiver, signal.SIGCONT)


async def check_unanswered(call: "asyncio.Task[Any]") -> None:
    await asyncio.wait([call], timeout=SILENCE)
    assert not call.done(), f"answered without the standby: {call!r}"


async def broken_off(pair: Pair) -> None:
    """End the session whose commit waits for the standby, as an operator would."""
    async with connected(pair.primary.url("jobs")) as operator:

        async def ended() -> Any:
            rows = await operator.fetch(WAITING)
            for row in rows:
                await operator.fetch("SELECT pg_terminate_backend($1)", row["pid"])
            return rows

        await until(ended, "a commit that waits for the standby")


async def stored(pair: Pair) -> None:
    """Wait until the primary shows a job that its standby does not have."""
    async with connected(pair.primary.url("jobs")) as operator:

        async def shown() -> Any:
            return await operator.fetchval("SELECT count(*) FROM detent.detent_ready")

        await until(shown, "a row of the call that was broken off")


@pytest.fixture
async def app(pair: Pair) -> AsyncIterator[App]:
    async with connected(pair.primary.url("jobs")) as connection:
        await connection.execute(
            "TRUNCATE detent.detent_job, detent.detent_ready, detent.detent_key"
        )
    async with App(pair.primary.url("jobs")) as app:
        yield app


OPTIONS: Final[dict[str, dict[str, Any]]] = {
    "plain": {},
    "key": {"key": "order-1"},
    "unique": {"unique": "user-1"},
    "replace": {"unique": "user-1", "on_conflict": "replace"},
    "both": {"key": "order-1", "unique": "user-1"},
}


@pytest.mark.parametrize("kind", OPTIONS)
async def test_a_retry_that_finds_its_job_waits_for_the_standby(
    pair: Pair, app: App, kind: str
) -> None:
    @app.task(name="note")
    async def note(number: int) -> None: ...

    await note.enqueue(0)  # the pool is warm, and the first wake-up is sent
    async with standing_still(pair):
        call = asyncio.create_task(note.options(**OPTIONS[kind]).enqueue(1))
        await broken_off(pair)
        await check_unanswered(call)
    job = await asyncio.wait_for(call, 20)
    assert job.created
    await pair.caught_up()
    async with connected(pair.standby.url("jobs")) as standby:
        assert await standby.fetchval(
            "SELECT count(*) FROM detent.detent_job WHERE id = $1", job.id
        )


Call = Callable[[Any, asyncpg.Connection], Awaitable[Any]]


async def _within(task: Any, connection: asyncpg.Connection, **options: Any) -> Any:
    async with connection.transaction():
        return await task.options(**options, within=connection).enqueue(1)


OTHERS: Final[dict[str, Call]] = {
    "key": lambda task, _: task.options(key="order-1").enqueue(1),
    "unique": lambda task, _: task.options(unique="user-1", on_conflict="return").enqueue(2),
    "raise": lambda task, _: task.options(unique="user-1").enqueue(2),
    "key within": lambda task, mine: _within(task, mine, key="order-1"),
    "unique within": lambda task, mine: _within(task, mine, unique="user-1", on_conflict="return"),
}


@pytest.mark.parametrize("kind", OTHERS)
async def test_an_answer_about_the_job_of_another_call_waits_for_the_standby(
    pair: Pair, app: App, kind: str
) -> None:
    @app.task(name="note")
    async def note(number: int) -> None: ...

    await app.store.queues()  # the pool is warm
    async with connected(pair.primary.url("jobs")) as mine:
        async with standing_still(pair):
            first = asyncio.create_task(note.options(**OPTIONS["both"]).enqueue(1))
            await broken_off(pair)
            await stored(pair)
            second = asyncio.create_task(_answer(OTHERS[kind](note, mine)))
            await check_unanswered(second)
        job = await asyncio.wait_for(first, 20)
        assert await asyncio.wait_for(second, 20) == job.id


async def _answer(call: Awaitable[Any]) -> Any:
    try:
        return (await call).id
    except KeyTaken as taken:
        return taken.job_id
