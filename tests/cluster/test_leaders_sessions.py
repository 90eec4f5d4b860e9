"""If these fail, PostgreSQL's locks and our terms disagree about who leads."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from datetime import timedelta
from typing import Any, Final
from urllib.parse import urlsplit, urlunsplit

import asyncpg
import pytest

from detent.errors import StoreError, TermLost
from detent.spi.leadership import SETTLING, Bid, Candidate, Leader, Term
from detent.stores.postgres import PostgresStore
from detent.stores.postgres.failures import DRIVER_ERRORS
from detent.stores.postgres.sessions import key_of
from detent.testing.conformance.builders import new_id
from tests.cluster.database import connected, until

ROLE: Final = "maintenance"
HOUR: Final = timedelta(hours=1)
NOTHING: Final = timedelta(0)

NewPeer = Callable[..., Awaitable["Peer"]]


class Peer:
    """A candidate with a store, and so a session, of its own: as in another process."""

    def __init__(self, store: PostgresStore, name: str) -> None:
        self.store = store
        self.doubts = 0
        self.candidate = Candidate(new_id(), name, self._doubt)
        self.term: int | None = None

    def _doubt(self) -> None:
        self.doubts += 1

    async def ask(self, lease: timedelta = HOUR, role: str = ROLE) -> Leader:
        """Ask once, as an elector does."""
        (leader,) = await self.store.elect(self.candidate, [Bid(role, self.term)], lease)
        self.term = leader.term if leader.holder == self.candidate.id else None
        return leader

    async def ask_again(self) -> Leader:
        """Ask after the connection broke; the driver may not have noticed yet."""
        try:
            return await self.ask()
        except StoreError:
            return await self.ask()

    @property
    def held(self) -> Term:
        assert self.term is not None
        return Term(ROLE, self.term, self.candidate.id)

    @property
    def backend(self) -> int:
        """The server's process for its session."""
        connection = self.store.sessions.here()._connection
        assert connection is not None
        return int(connection.get_server_pid())


@pytest.fixture
async def peer(postgres_url: str) -> AsyncIterator[NewPeer]:
    peers: list[Peer] = []

    async def make(url: str = postgres_url, **settings: Any) -> Peer:
        peers.append(Peer(PostgresStore(url, **settings), f"web-{len(peers) + 1}"))
        return peers[-1]

    yield make
    for each in peers:
        await each.store.close()


@pytest.fixture
async def database(postgres_url: str) -> AsyncIterator[Any]:
    async with connected(postgres_url) as connection:
        yield connection


async def lock_holders(database: Any, role: str = ROLE) -> list[int]:
    """Return the server processes that hold the advisory lock of a role."""
    key = key_of("detent", role) & 0xFFFFFFFFFFFFFFFF
    rows = await database.fetch(
        "SELECT pid FROM pg_locks WHERE locktype = 'advisory' AND granted AND objsubid = 1"
        " AND classid = $1::bigint::oid AND objid = $2::bigint::oid"
        " AND database = (SELECT oid FROM pg_database WHERE datname = current_database())",
        key >> 32,
        key & 0xFFFFFFFF,
    )
    return [row["pid"] for row in rows]


async def backend_in_row(database: Any) -> int | None:
    found: int | None = await database.fetchval(
        "SELECT backend FROM detent.detent_leader WHERE role = $1", ROLE
    )
    return found


async def test_a_leader_holds_the_lock_of_its_role(peer: NewPeer, database: Any) -> None:
    first, second = await peer(), await peer()
    assert (await first.ask()).term == 1
    for _ in range(3):
        await first.ask()
        await second.ask()
    assert await lock_holders(database) == [first.backend]
    assert await backend_in_row(database) == first.backend
    await first.store.resign(first.candidate.id, [first.held])
    assert await lock_holders(database) == []
    assert (await second.ask()).term == 2
    assert await lock_holders(database) == [second.backend]


async def end_session(database: Any, peer: Peer) -> None:
    """End the session of a leader, whose process lives, and wait until its lock is free."""
    backend = peer.backend
    await database.execute("SELECT pg_terminate_backend($1)", backend)

    async def free() -> bool:
        return backend not in await lock_holders(database)

    await until(free, "the lock to be free", 5.0)


async def test_when_a_session_ends_the_next_need_not_wait_for_the_lease(
    peer: NewPeer, database: Any
) -> None:
    """But for as long as the leader may still believe in its term, and has to stop."""
    first, second, third = await peer(), await peer(), await peer()
    await first.ask(HOUR)
    await end_session(database, first)
    asked = await database.fetchval("SELECT clock_timestamp()")
    leader = await second.ask()
    assert (leader.term, leader.holder) == (1, first.candidate.id), "its process may live"
    assert leader.free_in == pytest.approx(SETTLING.total_seconds(), abs=0.5)
    assert (await third.ask()).free_in is None, "who asks next does not make it longer"

    async def followed() -> bool:
        leader = await second.ask()
        return leader.holder == second.candidate.id

    await until(followed, "the second to lead", 10.0)
    since = await database.fetchval("SELECT since FROM detent.detent_leader")
    assert since - asked >= SETTLING
    assert second.term == 2
    # The first finds out with its next call, over a new connection.
    leader = await first.ask_again()
    assert (leader.term, leader.holder) == (2, second.candidate.id)
    assert first.term is None


async def test_a_leader_is_told_when_its_session_ends(peer: NewPeer, database: Any) -> None:
    first, second = await peer(), await peer()
    shared = Peer(first.store, "web-3")
    await first.ask()
    await shared.ask(role="other")
    await second.ask()
    await end_session(database, first)

    async def told() -> bool:
        return first.doubts > 0

    await until(told, "the leader to be told", 5.0)
    assert (first.doubts, shared.doubts, second.doubts) == (1, 1, 0)
    await first.ask()
    await first.store.resign(first.candidate.id, [first.held])
    assert first.doubts == 1, "a session that was closed on purpose is no reason for doubt"


async def test_a_leader_is_told_when_its_call_fails(peer: NewPeer, postgres_url: str) -> None:
    """With the call its session is given up, and with that its locks."""
    first = await peer()
    await first.ask()
    async with connected(postgres_url) as connection, connection.transaction():
        await connection.execute("SELECT 1 FROM detent.detent_leader FOR UPDATE")
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.2):
                await first.ask()
    assert first.doubts == 1
    assert (await first.ask()).term == 1


async def test_a_leader_that_confirms_in_time_has_its_whole_lease_again(
    peer: NewPeer, database: Any
) -> None:
    first, second = await peer(), await peer()
    await first.ask(HOUR)
    await end_session(database, first)
    await second.ask()
    leader = await first.ask_again()
    assert (leader.term, leader.holder) == (1, first.candidate.id)
    left = await database.fetchval(
        "SELECT lease_until - clock_timestamp() FROM detent.detent_leader WHERE role = $1", ROLE
    )
    assert left > timedelta(minutes=59)
    assert await backend_in_row(database) == first.backend


async def test_a_free_lock_says_nothing_about_a_leader_of_another_server(
    peer: NewPeer, database: Any
) -> None:
    """After a failover or a restart all locks are free, and leaders may not have noticed."""
    first, second = await peer(), await peer()
    await first.ask(HOUR)
    await database.execute(
        "UPDATE detent.detent_leader SET server = server - interval '1 microsecond'"
    )
    await end_session(database, first)
    leader = await second.ask()
    assert (leader.holder, leader.free_in) == (first.candidate.id, None)
    left = await database.fetchval(
        "SELECT lease_until - clock_timestamp() FROM detent.detent_leader WHERE role = $1", ROLE
    )
    assert left > timedelta(minutes=59)


async def test_a_leader_that_reconnects_first_keeps_its_term(peer: NewPeer, database: Any) -> None:
    first, second = await peer(), await peer()
    await first.ask()
    await database.execute("SELECT pg_terminate_backend($1)", first.backend)
    leader = await first.ask_again()
    assert (leader.term, leader.holder) == (1, first.candidate.id)
    assert await lock_holders(database) == [first.backend]
    assert (await second.ask()).holder == first.candidate.id


async def test_an_answer_tells_what_is_and_not_what_was(peer: NewPeer, postgres_url: str) -> None:
    """Another is elected while the leader's call waits: what it saw at first is over."""
    first, second = await peer(), await peer()
    await first.ask()
    async with connected(postgres_url) as connection, connection.transaction():
        await connection.execute(
            "UPDATE detent.detent_leader SET term = 2, node = $1, backend = NULL",
            second.candidate.id,
        )
        asking = asyncio.create_task(first.ask())

        async def waits() -> bool:
            query = "SELECT wait_event_type = 'Lock' FROM pg_stat_activity WHERE pid = $1"
            return bool(await connection.fetchval(query, first.backend))

        await until(waits, "the first to wait")
    leader = await asking
    assert leader.holder != first.candidate.id
    assert first.term is None
    assert (await first.ask()).holder == second.candidate.id


async def test_a_zombie_with_the_lock_is_pre_empted_and_its_session_ended(
    peer: NewPeer, database: Any
) -> None:
    """Its process is frozen: the connection lives, the lease is over."""
    zombie, second = await peer(), await peer()
    await zombie.ask(NOTHING)
    old, backend = zombie.held, zombie.backend
    assert await lock_holders(database) == [backend]
    leader = await second.ask()
    assert (leader.term, leader.holder) == (2, second.candidate.id)

    async def ended() -> bool:
        return backend not in await lock_holders(database)

    await until(ended, "the end of the zombie's session", 5.0)
    await second.ask()
    assert await lock_holders(database) == [second.backend], "it is the new leader's now"
    assert await backend_in_row(database) == second.backend
    # It wakes up. All it can do is to be told.
    await second.store.acquire_lock("left behind", second.candidate.id, "web-3", NOTHING)
    assert await zombie.store.forget_locks(old, NOTHING, 10) == 0
    assert await second.store.forget_locks(second.held, NOTHING, 10) == 1
    async with connected(_url_of(zombie)) as connection:
        with pytest.raises(TermLost):
            async with connection.transaction():
                await zombie.store.fence_within(connection, old)
    assert (await zombie.ask_again()).holder == second.candidate.id


def _url_of(peer: Peer) -> str:
    return peer.store.database.address.url


async def test_without_the_right_to_end_sessions_the_term_decides_alone(
    peer: NewPeer, database: Any
) -> None:
    zombie = await peer()
    await zombie.ask(NOTHING)
    name = f"weak_{new_id().hex[-8:]}"
    await database.execute(
        f"CREATE ROLE {name} LOGIN;"
        f"GRANT USAGE ON SCHEMA detent TO {name};"
        f"GRANT ALL ON ALL TABLES IN SCHEMA detent TO {name};"
        f"GRANT ALL ON ALL SEQUENCES IN SCHEMA detent TO {name}"
    )
    try:
        weak = await peer(_as_user(_url_of(zombie), name))
        leader = await weak.ask()
        assert (leader.term, leader.holder) == (2, weak.candidate.id)
        assert await lock_holders(database) == [zombie.backend], "it could not be ended"
        for _ in range(3):
            leader = await weak.ask()
            assert (leader.term, leader.holder) == (2, weak.candidate.id)
        leader = await zombie.ask()
        assert (leader.term, leader.holder) == (2, weak.candidate.id)
        assert await lock_holders(database) == [], "it let go of a lock that is not its own"
        await weak.ask()
        assert await lock_holders(database) == [weak.backend]
        await weak.store.close()
    finally:
        await database.execute(f"DROP OWNED BY {name}; DROP ROLE {name}")


def _as_user(url: str, name: str) -> str:
    parts = urlsplit(url)
    return urlunsplit(parts._replace(netloc=f"{name}@{parts.netloc.rpartition('@')[2]}"))


# Behind a pooler


async def test_behind_a_pooler_the_lease_alone_counts(peer: NewPeer, database: Any) -> None:
    first, second = await peer(pooler=True), await peer(pooler=True)
    await first.ask(HOUR)
    assert await lock_holders(database) == []
    assert await backend_in_row(database) is None
    assert (await second.ask()).holder == first.candidate.id
    await first.ask(NOTHING)
    assert (await second.ask()).term == 2


async def test_a_free_lock_says_nothing_about_a_leader_behind_a_pooler(
    peer: NewPeer, database: Any
) -> None:
    pooled, direct = await peer(pooler=True), await peer()
    await pooled.ask(HOUR)
    for _ in range(3):
        assert (await direct.ask()).holder == pooled.candidate.id
    assert await lock_holders(database) == [], "a lock that was got for nothing is given back"
    await pooled.store.resign(pooled.candidate.id, [pooled.held])
    assert (await direct.ask()).term == 2
    assert (await pooled.ask()).holder == direct.candidate.id


# In one process


async def test_candidates_that_share_a_session_do_not_share_its_locks(peer: NewPeer) -> None:
    first = await peer()
    second = Peer(first.store, "web-2")
    await first.ask()
    for _ in range(2):
        assert (await second.ask()).holder == first.candidate.id
    await first.ask(NOTHING)
    assert (await second.ask()).term == 2
    assert (await first.ask()).holder == second.candidate.id
    assert (await second.ask()).term == 2


async def test_a_store_that_leads_nothing_any_more_keeps_no_connection(
    peer: NewPeer, database: Any
) -> None:
    first = await peer()
    await first.ask()
    backend = first.backend
    await first.store.resign(first.candidate.id, [first.held])

    async def gone() -> bool:
        query = "SELECT count(*) FROM pg_stat_activity WHERE pid = $1"
        return not await database.fetchval(query, backend)

    await until(gone, "the end of the session", 5.0)


async def test_schedulers_in_one_database_have_their_own_leaders(
    peer: NewPeer, postgres_url: str
) -> None:
    from detent.stores.postgres.migrations import migrate

    await migrate(postgres_url, "other")
    here, there = await peer(), await peer(schema="other")
    assert (await here.ask()).term == 1
    assert (await there.ask()).term == 1


# Transactions under a term


async def test_a_frozen_transaction_does_not_hold_up_its_successor_for_ever(
    peer: NewPeer, postgres_url: str
) -> None:
    """The server ends it when it has rested for as long as a lease."""
    lease = timedelta(seconds=3)
    frozen, second = await peer(), await peer()
    await frozen.ask(lease)
    connection = await asyncpg.connect(postgres_url)
    try:
        transaction = connection.transaction()
        await transaction.start()
        await frozen.store.fence_within(connection, frozen.held)
        await connection.execute("CREATE TABLE effect ()")
        await frozen.ask(NOTHING)
        leader = await second.ask()
        assert leader.holder == frozen.candidate.id, "it is still held by the transaction"

        async def followed() -> bool:
            return (await second.ask()).holder == second.candidate.id

        await until(followed, "the second to lead", 5.0)
        # What the driver says depends on whether it has read of the end already.
        with pytest.raises(DRIVER_ERRORS):
            await transaction.commit()
    finally:
        connection.terminate()
    async with connected(postgres_url) as other:
        assert await other.fetchval("SELECT to_regclass('effect')") is None


async def test_a_stricter_limit_of_the_callers_own_stays(peer: NewPeer, postgres_url: str) -> None:
    first = await peer()
    await first.ask(timedelta(seconds=15))
    async with connected(postgres_url) as connection:
        shown = "SELECT current_setting('idle_in_transaction_session_timeout')"
        async with connection.transaction():
            await first.store.fence_within(connection, first.held)
            assert await connection.fetchval(shown) == "15s"
        assert await connection.fetchval(shown) == "0"
        await connection.execute("SET idle_in_transaction_session_timeout = '2s'")
        async with connection.transaction():
            await first.store.fence_within(connection, first.held)
            assert await connection.fetchval(shown) == "2s"


async def test_many_fenced_transactions_run_beside_each_other_and_the_renewals(
    peer: NewPeer, postgres_url: str
) -> None:
    first = await peer()
    await first.ask()
    begun = asyncio.Barrier(4)

    async def write() -> None:
        async with connected(postgres_url) as connection, connection.transaction():
            await first.store.fence_within(connection, first.held)
            await begun.wait()

    async def renew() -> None:
        await first.ask()
        await begun.wait()

    async with asyncio.timeout(10):
        await asyncio.gather(write(), write(), write(), renew())
    assert first.term == 1
