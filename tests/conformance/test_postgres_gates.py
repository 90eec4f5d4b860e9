"""If these fail, what a process remembers of gates lets too many in, or keeps some out."""

import asyncio
import random
from collections.abc import AsyncIterator, Sequence
from contextlib import AsyncExitStack
from datetime import timedelta
from typing import Any
from uuid import UUID

import asyncpg
import pytest

from detent.model.gates import Gate, written
from detent.model.job import Claim, Hook, lane_of
from detent.model.limits import Limit
from detent.spi.limits import GatedAnswer, GatedRequest
from detent.spi.scans import LaneScan
from detent.stores.postgres import PostgresStore
from detent.stores.postgres.gates import MANY, GateMemory, gates_asked, lock_key
from detent.testing.conformance.builders import completion, new_job
from detent.testing.conformance.steps import joined

SMTP = Gate("resource:smtp")
HEAVY = Gate("resource:smtp", 3)
LIGHT_LANE, HEAVY_LANE = (lane_of("default", (), [written(gate)]) for gate in (SMTP, HEAVY))


@pytest.fixture
async def stores(emptied_postgres_url: str) -> AsyncIterator[list[PostgresStore]]:
    """Stores as two processes have them: each remembers for itself."""
    async with AsyncExitStack() as stack:
        opened = [PostgresStore(emptied_postgres_url) for _ in range(2)]
        for store in opened:
            await store.open()
            stack.push_async_callback(store.close)
        yield opened


async def asked(store: PostgresStore, node: UUID, room: int, *lanes: str) -> GatedAnswer:
    scans = [LaneScan(lane, "default", room) for lane in lanes]
    rooms = [room] * len(lanes)
    return await store.claim_gated(
        GatedRequest(node, scans, rooms, [0] * len(lanes), 1_000, timedelta(0), 8_192)
    )


async def enqueued(store: PostgresStore, lane: str, count: int) -> None:
    await store.enqueue_jobs([new_job()._replace(lane=lane) for _ in range(count)])


async def ended(store: PostgresStore, node: UUID, claims: Sequence[Claim]) -> None:
    done = await store.finish_jobs(node, [completion(claim) for claim in claims])
    assert len(done) == len(claims)


def statements_of(store: PostgresStore, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Return a list to which the names of claiming statements are added as they are used."""
    used: list[str] = []
    fetch = store.database.fetch

    async def noted(name: str, *arguments: Any, to_its_end: bool = False) -> Any:
        if name.startswith("claim_"):
            used.append(name)
        return await fetch(name, *arguments, to_its_end=to_its_end)

    monkeypatch.setattr(store.database, "fetch", noted)
    return used


async def test_claims_of_another_process_count(stores: list[PostgresStore]) -> None:
    one, other = stores
    await one.declare_limits([Limit(SMTP.name, 250)])
    await enqueued(one, LIGHT_LANE, 500)
    nodes = [await joined(store) for store in stores]
    assert len((await asked(one, nodes[0], MANY, LIGHT_LANE)).claims) == 100
    assert len((await asked(other, nodes[1], MANY, LIGHT_LANE)).claims) == 100
    last = await asked(one, nodes[0], MANY, LIGHT_LANE)
    assert len(last.claims) == 50
    assert last.lanes[0].blocked_by == SMTP.name


async def test_what_has_ended_since_does_not_count(stores: list[PostgresStore]) -> None:
    one, other = stores
    await one.declare_limits([Limit(SMTP.name, 250)])
    await enqueued(one, LIGHT_LANE, 2_000)
    nodes = [await joined(store) for store in stores]
    for _ in range(7):
        for store, node in zip(stores, nodes, strict=True):
            answer = await asked(store, node, MANY, LIGHT_LANE)
            assert len(answer.claims) == MANY
            await ended(other, node, answer.claims)


async def test_a_lane_that_gave_many_may_be_empty(stores: list[PostgresStore]) -> None:
    store, _ = stores
    await store.declare_limits([Limit(SMTP.name, 10_000)])
    await enqueued(store, LIGHT_LANE, 250)
    node = await joined(store)
    taken = [len((await asked(store, node, MANY, LIGHT_LANE)).claims) for _ in range(3)]
    assert taken == [100, 100, 50]
    answer = await asked(store, node, MANY, LIGHT_LANE)
    assert answer.claims == []
    assert answer.lanes[0].due_in is None


async def test_a_wide_claim_is_like_any_other(
    stores: list[PostgresStore], emptied_postgres_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    store, _ = stores
    used = statements_of(store, monkeypatch)
    await store.declare_limits([Limit(SMTP.name, 10_000), Limit("queue:default", 10_000)])
    jobs = [new_job(priority=priority)._replace(lane=HEAVY_LANE) for priority in [1, 4, 2] * 90]
    await store.enqueue_jobs(jobs)
    node = await joined(store)
    answers = [await asked(store, node, MANY, HEAVY_LANE) for _ in range(2)]
    assert used == ["claim_gated", "claim_wide"]
    told = [(each.taken, each.blocked_by) for answer in answers for each in answer.lanes]
    assert told == [(MANY, None)] * 2
    heads = [each.head for answer in answers for each in answer.lanes]
    assert [head and head.priority for head in heads] == [4, 1]
    assert all(head is not None and 0 <= head.waited < 60 for head in heads)
    order = [claim.id for answer in answers for claim in answer.claims]
    assert order == [job.id for job in sorted(jobs, key=lambda job: -job.priority)][: 2 * MANY]
    connection = await asyncpg.connect(emptied_postgres_url)
    try:
        rows = await connection.fetch(
            """
            SELECT DISTINCT fence, resource_gate, task_gate, queue_gate, weight, hooks, lane, node
            FROM detent.detent_running ORDER BY fence
            """
        )
    finally:
        await connection.close()
    (_, *first), (_, *second) = rows
    assert first == second
    resource, task, queue, weight, hooks, *_ = first
    assert None not in {resource, queue}
    assert (task, weight, hooks) == (None, HEAVY.weight, Hook.LIMIT)


@pytest.mark.parametrize("least", [0, 3])
async def test_what_is_not_urgent_enough_is_not_in_a_wide_claim(
    stores: list[PostgresStore], monkeypatch: pytest.MonkeyPatch, least: int
) -> None:
    store, _ = stores
    await store.declare_limits([Limit(SMTP.name, 10_000)])
    jobs = [
        new_job(priority=priority)._replace(lane=LIGHT_LANE) for priority in [4] * 150 + [2] * 50
    ]
    await store.enqueue_jobs(jobs)
    node = await joined(store)
    assert len((await asked(store, node, MANY, LIGHT_LANE)).claims) == MANY
    used = statements_of(store, monkeypatch)
    answer = await store.claim_gated(
        GatedRequest(
            node,
            [LaneScan(LIGHT_LANE, "default", MANY)],
            [MANY],
            [least],
            MANY,
            timedelta(0),
            8_192,
        )
    )
    assert used == ["claim_gated" if least else "claim_wide"]
    assert len(answer.claims) == (50 if least else MANY)


@pytest.mark.parametrize("seed", range(4))
async def test_never_more_than_the_limit_and_none_left_out(
    stores: list[PostgresStore], seed: int
) -> None:
    dice = random.Random(seed)
    limit = dice.choice([40, 333, 5_000])
    await stores[0].declare_limits([Limit(SMTP.name, limit)])
    await enqueued(stores[0], LIGHT_LANE, 3_000)
    await enqueued(stores[0], HEAVY_LANE, 1_000)
    nodes = [await joined(store) for store in stores]
    held: list[tuple[int, Claim, int]] = []
    for _ in range(80):
        which = dice.randrange(2)
        mine = [entry for entry in held if entry[0] == which]
        if dice.random() < 0.4 and mine:
            gone = mine[: dice.randrange(1, len(mine) + 1)]
            await ended(stores[which], nodes[which], [claim for _, claim, _ in gone])
            held = [entry for entry in held if entry not in gone]
            continue
        lane, weight = dice.choice([(LIGHT_LANE, 1), (HEAVY_LANE, 3)])
        room = dice.choice([1, 30, MANY, 150])
        used = sum(weight for _, _, weight in held)
        answer = await asked(stores[which], nodes[which], room, lane)
        assert len(answer.claims) == min(room, (limit - used) // weight)
        held += [(which, claim, weight) for claim in answer.claims]
    (told,) = await stores[0].limits()
    assert told.running == sum(weight for _, _, weight in held)


async def test_what_was_remembered_of_another_server_is_not_believed() -> None:
    gates = gates_asked("detent", [LaneScan(LIGHT_LANE, "default", 10)])
    memory = GateMemory()
    memory.learn(gates, [5, None], [7, None], 1.0, 9)
    assert memory.of(gates) == ([5, 0], [7, None], [9, 0], 1.0)
    memory.learn(gates, [None, None], [None, None], 2.0, None)
    assert memory.of(gates) == ([0, 0], [None, None], [0, 0], 2.0)


async def test_a_gate_that_is_locked_keeps_only_its_own_lanes_out(
    stores: list[PostgresStore], emptied_postgres_url: str
) -> None:
    store, _ = stores
    await store.declare_limits([Limit(SMTP.name, 10), Limit("resource:other", 10)])
    other_lane = lane_of("default", (), ["resource:other"])
    for lane in (LIGHT_LANE, HEAVY_LANE, other_lane, "default"):
        await enqueued(store, lane, 3)
    node, holder = await joined(store), await asyncpg.connect(emptied_postgres_url)
    lanes = (LIGHT_LANE, HEAVY_LANE, other_lane, "default")
    try:
        key = lock_key(store.database.address.schema, SMTP.name)
        await holder.execute("SELECT pg_advisory_lock($1)", key)
        async with asyncio.timeout(5):
            answer = await asked(store, node, 100, *lanes)
        assert [each.taken for each in answer.lanes] == [0, 0, 3, 3]
        light, heavy, *_ = answer.lanes
        for told in (light, heavy):
            assert told.blocked_by == SMTP.name
            assert told.retry_after is not None
            assert 0 < told.retry_after < 1
            assert told.due_in == 0
            assert not told.keeps
    finally:
        await holder.close()
    answer = await asked(store, node, 100, *lanes)
    assert [each.taken for each in answer.lanes] == [3, 2, 0, 0]


async def test_a_gate_that_is_free_in_a_moment_is_waited_for(
    stores: list[PostgresStore], emptied_postgres_url: str
) -> None:
    store, _ = stores
    await store.declare_limits([Limit(SMTP.name, 10)])
    await enqueued(store, LIGHT_LANE, 1)
    node, holder = await joined(store), await asyncpg.connect(emptied_postgres_url)
    try:
        key = lock_key(store.database.address.schema, SMTP.name)
        for _ in range(20):
            await holder.execute("SELECT pg_advisory_lock($1)", key)
            claim = asyncio.create_task(asked(store, node, 100, LIGHT_LANE))
            await is_waited_for(emptied_postgres_url)
            await holder.execute("SELECT pg_advisory_unlock($1)", key)
            if (await claim).claims:
                return
        pytest.fail("no claim of twenty has waited for its gate")
    finally:
        await holder.close()


async def is_waited_for(url: str) -> None:
    """Return when a session waits for an advisory lock, or has waited long enough for one."""
    connection = await asyncpg.connect(url)
    try:
        for _ in range(50):
            if await connection.fetchval(
                "SELECT EXISTS (SELECT 1 FROM pg_locks WHERE locktype = 'advisory' AND NOT granted)"
            ):
                return
    finally:
        await connection.close()
