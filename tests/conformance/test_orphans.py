"""If these fail, a claim whose job was deleted by hand keeps its permits and its key for ever.

No call of the store removes the row of a living job, so each store has its own way to lose it here.
"""

import sqlite3
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack, closing
from datetime import timedelta
from pathlib import Path
from typing import NamedTuple
from uuid import UUID

import asyncpg
import pytest

from detent.model.job import Keys
from detent.model.limits import Limit
from detent.model.state import State
from detent.spi.limits import GatedRequest
from detent.spi.rescue import Orphan
from detent.spi.scans import LaneScan
from detent.spi.store import Store
from detent.stores.memory import MemoryStore
from detent.stores.postgres import PostgresStore
from detent.stores.sqlite import SqliteStore
from detent.testing.conformance.builders import new_job, unique
from detent.testing.conformance.steps import (
    claimed,
    claimed_ids,
    enqueued,
    held,
    joined,
    place,
    state_of,
)

MAX_CRASHES = 3
LANE = "default~resource:smtp"


class Damage(NamedTuple):
    """What an operator may do to the tables of a store by hand."""

    lose_job: Callable[[UUID], Awaitable[None]]
    lose_nodes: Callable[[], Awaitable[None]]


class OpenMemory(MemoryStore):
    """A store whose tables can be damaged."""

    async def lose_job(self, job_id: UUID) -> None:
        del self._tables.job[job_id]

    async def lose_nodes(self) -> None:
        self._tables.nodes.clear()


Stored = tuple[Store, Damage]


@pytest.fixture(params=["memory", "sqlite", "postgres"])
def where(request: pytest.FixtureRequest, tmp_path: Path) -> tuple[str, str]:
    """The kind of a store, and where it keeps its tables."""
    if request.param == "postgres":
        return "postgres", request.getfixturevalue("postgres_url")
    return request.param, str(tmp_path / "detent.db")


@pytest.fixture
async def stored(where: tuple[str, str]) -> AsyncIterator[Stored]:
    kind, address = where
    async with AsyncExitStack() as stack:
        if kind == "memory":
            memory = OpenMemory()
            yield memory, Damage(memory.lose_job, memory.lose_nodes)
        elif kind == "sqlite":
            yield await sqlite_store(address, stack)
        else:
            yield await postgres_store(address, stack)


async def sqlite_store(file: str, stack: AsyncExitStack) -> Stored:
    store = SqliteStore(file)
    await store.open()
    stack.push_async_callback(store.close)

    async def execute(sql: str, *args: object) -> None:
        with closing(sqlite3.connect(file)) as connection, connection:
            connection.execute(sql, args)

    return store, Damage(
        lambda job_id: execute("DELETE FROM detent_job WHERE id = ?", job_id.bytes),
        lambda: execute("DELETE FROM detent_node"),
    )


async def postgres_store(url: str, stack: AsyncExitStack) -> Stored:
    store = PostgresStore(url)
    stack.push_async_callback(store.close)

    async def execute(sql: str, *args: object) -> None:
        connection = await asyncpg.connect(url)
        await connection.execute(sql, *args)
        await connection.close()

    return store, Damage(
        lambda job_id: execute("DELETE FROM detent.detent_job WHERE id = $1", job_id),
        lambda: execute("DELETE FROM detent.detent_node"),
    )


async def test_a_claim_of_a_living_node_without_a_job_is_removed(stored: Stored) -> None:
    store, damage = stored
    node, claim = await held(store)
    await enqueued(store)
    kept = await claimed(store, node)
    await damage.lose_job(claim.id)
    assert (await store.rescue(100, MAX_CRASHES)).jobs == []
    rescue = await store.rescue(100, MAX_CRASHES, everywhere=True)
    assert list(rescue.orphans) == [Orphan(claim.id, claim.fence, node, claim.lane)]
    assert (rescue.nodes, rescue.jobs, rescue.busy) == ([], [], 0)
    assert await store.claims_of(node) == [(each.id, each.fence) for each in kept]
    assert list((await store.rescue(100, MAX_CRASHES, everywhere=True)).orphans) == [], "once"


async def test_what_a_dead_node_held_without_a_job_does_not_stop_the_rescue(stored: Stored) -> None:
    store, damage = stored
    ids = await enqueued(store, new_job(), new_job(), new_job())
    node = await joined(store)
    assert await claimed_ids(store, node) == ids
    await damage.lose_job(ids[0])
    await store.beat(node, timedelta(0))
    rescue = await store.rescue(100, MAX_CRASHES)
    assert [dead.incarnation for dead in rescue.nodes] == [node]
    assert [job.id for job in rescue.jobs] == ids[1:]
    assert [orphan.id for orphan in rescue.orphans] == ids[:1]
    assert rescue.busy == 0, "or it would be looked for every second"
    assert await store.claims_of(node) == []
    assert await store.forget_nodes(timedelta(0), 10) == 1


async def test_a_job_without_a_row_is_claimed_once_and_then_removed(stored: Stored) -> None:
    store, damage = stored
    lost, other = await enqueued(store, new_job(), new_job())
    await damage.lose_job(lost)
    node = await joined(store)
    assert await claimed_ids(store, node) == [other]
    rescue = await store.rescue(100, MAX_CRASHES, everywhere=True)
    assert [orphan.id for orphan in rescue.orphans] == [lost]
    assert [job_id for job_id, _ in await store.claims_of(node)] == [other]


async def test_its_permits_are_free_again(stored: Stored) -> None:
    store, damage = stored
    await store.declare_limits([Limit("resource:smtp", 1)])
    first, second = await enqueued(store, *(new_job()._replace(lane=LANE) for _ in range(2)))
    node = await joined(store)

    async def ask() -> list[UUID]:
        scan = LaneScan(LANE, "default", 5)
        request = GatedRequest(node, [scan], [5], [0], 5, timedelta(0), 8_192)
        return [claim.id for claim in (await store.claim_gated(request)).claims]

    assert await ask() == [first]
    await damage.lose_job(first)
    assert await ask() == []
    await store.rescue(100, MAX_CRASHES, everywhere=True)
    assert await ask() == [second]


async def test_its_business_key_is_free_again_and_its_replacement_goes_on(stored: Stored) -> None:
    store, damage = stored
    keys: Keys = unique("user-42", on_conflict="replace")
    holder = await place(store, new_job(), keys)
    node = await joined(store)
    assert await claimed_ids(store, node) == [holder.id]
    waiting = await place(store, new_job(), keys)
    assert await state_of(store, waiting.id) is State.WAITING
    await damage.lose_job(holder.id)
    await store.rescue(100, MAX_CRASHES, everywhere=True)
    assert await claimed_ids(store, node) == [waiting.id]


async def test_claims_of_a_node_without_a_row_are_found(stored: Stored) -> None:
    store, damage = stored
    _, claim = await held(store)
    await damage.lose_nodes()
    rescue = await store.rescue(100, MAX_CRASHES, everywhere=True)
    assert [job.id for job in rescue.jobs] == [claim.id]
    assert rescue.busy == 0
