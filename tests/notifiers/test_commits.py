"""If these fail, a commit that is to wake the nodes wakes none, or twice as many."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

import asyncpg

from detent.notifiers.wire import decode
from detent.spi.notifier import Hint, Wake, token_of
from detent.stores.memory import MemoryNotifier
from detent.stores.postgres import PostgresStore
from detent.testing.conformance.builders import new_job


@asynccontextmanager
async def listening(url: str) -> AsyncIterator[Callable[[], "asyncio.Future[list[Wake]]"]]:
    """Listen on a connection of its own; the result returns what the next notification says."""
    heard: asyncio.Queue[list[Wake]] = asyncio.Queue()
    connection = await asyncpg.connect(url)
    await connection.add_listener(
        "detent_wake", lambda _c, _p, _ch, payload: heard.put_nowait(decode(payload))
    )
    try:
        yield lambda: asyncio.ensure_future(heard.get())
    finally:
        await connection.close()


async def test_the_commit_of_a_lone_job_carries_its_hint(postgres_url: str) -> None:
    store = PostgresStore(postgres_url)
    job = new_job()
    hint = Hint(job.lane, token=token_of(job.id))
    async with listening(postgres_url) as heard:
        assert await store.enqueue_jobs([job], [hint])
        assert await heard() == [hint]
        # Again, as after a lost reply: nothing is stored twice, and its caller tells the nodes.
        assert not await store.enqueue_jobs([job], [hint])
        # Without the wish, no commit notifies.
        assert not await store.enqueue_jobs([new_job()])
        last = Hint("last")
        store.notifier.publish([last])
        assert await heard() == [last]
    assert [found.id for found in await store.get_jobs([job.id])] == [job.id]
    await store.close()


async def test_a_store_whose_wakeups_go_another_way_leaves_them_to_its_caller(
    postgres_url: str,
) -> None:
    store = PostgresStore(postgres_url, notifier=MemoryNotifier())
    job = new_job()
    assert not await store.enqueue_jobs([job], [Hint(job.lane)])
    await store.close()


async def test_a_lone_job_in_a_callers_transaction_has_a_token(postgres_url: str) -> None:
    store = PostgresStore(postgres_url)
    lone, later, first, second = new_job(), new_job(delay=60.0), new_job(), new_job()
    async with listening(postgres_url) as heard:
        connection = await asyncpg.connect(postgres_url)
        for jobs in ([lone], [later], [first, second]):
            async with connection.transaction():
                await store.enqueue_within(connection, jobs, None)
        (hint,) = await heard()
        assert isinstance(hint, Hint)
        assert (hint.id, hint.token) == (lone.id, token_of(lone.id))
        for jobs in ([later], [first]):
            (hint,) = await heard()
            assert isinstance(hint, Hint)
            assert (hint.id, hint.token) == (jobs[0].id, None), "all nodes are to know of it"
        await connection.close()
    await store.close()
