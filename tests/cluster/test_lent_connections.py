"""If these fail, what one task did in `ctx.transaction()` is met by whoever gets its connection."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any, NamedTuple
from uuid import UUID

import pytest

from detent.errors import StoreUnavailable
from detent.model.job import Claim
from detent.spi.store import PendingCompletion
from detent.stores.postgres import PostgresStore
from detent.testing.conformance.builders import HOUR, claim_request, new_job, node_identity
from tests.cluster.database import connected

LOCK = "SELECT pg_advisory_lock(42)"
LOCKS = "SELECT count(*) FROM pg_locks WHERE locktype = 'advisory'"


class Held(NamedTuple):
    """A claim in a store of one connection, which everybody gets in turn."""

    store: PostgresStore
    node: UUID
    claim: Claim

    def transaction(self) -> Any:
        return self.store.transaction(self.node, self.claim, PendingCompletion("default"))

    async def fail(self, error: BaseException, work: Callable[[Any], Awaitable[Any]]) -> None:
        """Be a task that does something and fails."""
        async with self.transaction() as connection:
            await work(connection)
            raise error


@pytest.fixture
async def held(postgres_url: str) -> AsyncIterator[Held]:
    async with connected(postgres_url) as connection:
        # As an owner of a database may: nobody waits for a lock for ever.
        name = await connection.fetchval("SELECT current_database()")
        await connection.execute(f'ALTER DATABASE "{name}" SET lock_timeout = 200')
    store = PostgresStore(postgres_url, pool_size=1)
    node = node_identity()
    await store.join(node, HOUR)
    await store.enqueue_jobs([new_job()])
    (claim,) = await store.claim_jobs(claim_request(node.incarnation))
    yield Held(store, node.incarnation, claim)
    await store.close()


async def test_a_claim_that_is_locked_spoils_no_connection(held: Held, postgres_url: str) -> None:
    async with connected(postgres_url) as other, other.transaction():
        await other.execute("SELECT FROM detent.detent_running FOR UPDATE")
        with pytest.raises(StoreUnavailable, match="lock timeout"):
            async with held.transaction():
                raise AssertionError("entered")
    assert [queue.running for queue in await held.store.queues()] == [1]
    async with held.transaction():
        pass
    assert [queue.running for queue in await held.store.queues()] == []


@pytest.mark.parametrize("error", [ValueError, TimeoutError, asyncio.CancelledError])
async def test_a_lock_of_a_session_does_not_outlive_the_task(
    held: Held, postgres_url: str, error: type[BaseException]
) -> None:
    with pytest.raises(error):
        await held.fail(error(), lambda connection: connection.execute(LOCK))
    await held.store.queues()
    async with connected(postgres_url) as other:
        assert await other.fetchval(LOCKS) == 0


async def test_what_breaks_in_a_task_is_not_the_connection(held: Held) -> None:
    """A service that does not answer is no reason to connect to the database anew."""
    pids = []

    async def work(connection: Any) -> None:
        pids.append(await connection.fetchval("SELECT pg_backend_pid()"))

    for _ in range(2):
        with pytest.raises(ConnectionRefusedError, match="of a service"):
            await held.fail(ConnectionRefusedError("of a service"), work)
    assert pids[0] == pids[1]


async def test_the_error_of_a_task_outlives_its_connection(held: Held, postgres_url: str) -> None:
    async def be_ended(connection: Any) -> None:
        pid = await connection.fetchval("SELECT pg_backend_pid()")
        async with connected(postgres_url) as other:
            await other.execute("SELECT pg_terminate_backend($1)", pid)

    with pytest.raises(ValueError, match="what is wrong"):
        await held.fail(ValueError("what is wrong"), be_ended)
    async with held.transaction():
        pass


@pytest.mark.parametrize("pool_size", [1, 2, 5])
async def test_tasks_never_hold_all_connections(postgres_url: str, pool_size: int) -> None:
    """Each does something beside its transaction: nobody waits for himself."""
    store = PostgresStore(postgres_url, pool_size=pool_size)
    node = node_identity()
    await store.join(node, HOUR)
    await store.enqueue_jobs([new_job() for _ in range(6)])
    claims = await store.claim_jobs(claim_request(node.incarnation))

    async def run(claim: Claim) -> None:
        async with Held(store, node.incarnation, claim).transaction():
            await asyncio.gather(*(store.queues() for _ in range(pool_size)))

    async with asyncio.timeout(30):
        await asyncio.gather(*map(run, claims))
    assert len(claims) == 6
    assert await store.queues() == []
    await store.close()


async def test_a_server_that_is_gone_is_said_in_our_words(held: Held) -> None:
    elsewhere = held._replace(store=PostgresStore("postgresql://nobody@127.0.0.1:1/nowhere"))
    with pytest.raises(StoreUnavailable, match="cannot be reached"):
        async with elsewhere.transaction():
            raise AssertionError("entered")
