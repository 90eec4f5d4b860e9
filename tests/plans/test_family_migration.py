"""If these fail, an upgrade lets more jobs of a key run than may, or forgets whose turn it is."""

import asyncio
from collections.abc import AsyncIterator
from datetime import timedelta
from typing import Final
from uuid import UUID

import pytest

from detent.model.gates import Gate, gate_name
from detent.model.job import Claim
from detent.model.limits import Limit
from detent.model.rescue import suspect_lane
from detent.model.state import Verb
from detent.spi.store import Change
from detent.stores.postgres import PostgresStore, migrations
from detent.stores.postgres.migrations import known_migrations, migrate
from detent.testing.conformance.builders import new_job, retried
from detent.testing.conformance.families import whole
from detent.testing.conformance.limits import asked, behind, finished, lane, running
from detent.testing.conformance.steps import enqueued, joined
from tests.cluster.database import connected

BEFORE: Final = 16
NOW: Final = timedelta(0)
ENOUGH: Final = 50
SMTP: Final = Gate("resource:smtp", 3)
STRANGE: Final = "a~b+c*d#e%f é '\""
KEYS: Final = ("a", "", STRANGE)
PAIRS: Final = "default~task:pair"
SERIAL: Final = "default~task:serial"


def pair(key: str) -> Gate:
    return Gate(gate_name("task", "pair", key))


def serial(key: str) -> Gate:
    return Gate(gate_name("task", "serial", key))


@pytest.fixture
async def old(
    empty_postgres_url: str, monkeypatch: pytest.MonkeyPatch
) -> AsyncIterator[PostgresStore]:
    """A store with the schema before families: the numbers of keys are made by nodes."""
    everything = known_migrations()
    with monkeypatch.context() as patch:
        patch.setattr(migrations, "known_migrations", lambda: everything[:BEFORE])
        await migrate(empty_postgres_url)
        store = PostgresStore(empty_postgres_url)
        await store.open()
    await store.declare_limits(
        [
            Limit("task:pair#", 2),
            Limit("task:serial#", 1, ordered=True),
            Limit("task:whole", 1, ordered=True),
            Limit(SMTP.name, 100),
        ]
    )
    yield store
    await store.close()


async def run_one(store: PostgresStore, node: UUID, where: str) -> Claim:
    (claim,) = (await asked(store, node, where, room=1)).claims
    return claim


def all_places(key: str) -> list[str]:
    """Return all sorts of lanes in which a key may stand."""
    gate = pair(key)
    return [
        lane(gate),
        lane(SMTP, gate),
        lane(gate, needs=("gpu",)),
        lane(gate, Gate("fair:default#1")),
        suspect_lane(lane(gate)),
    ]


async def test_what_runs_during_the_upgrade_counts_afterwards(
    old: PostgresStore, empty_postgres_url: str
) -> None:
    node = await joined(old)
    taken: dict[tuple[str, int], list[Claim]] = {}
    for key in KEYS:
        for number in range(len(all_places(key))):
            places = all_places(key + str(number) * number)
            await enqueued(old, *(new_job()._replace(lane=places[number]) for _ in range(2)))
            taken[key, number] = [await run_one(old, node, places[number]) for _ in range(2)]
            await enqueued(old, *(new_job()._replace(lane=place) for place in places * 3))
    numbers = "SELECT task_gate FROM detent.detent_running ORDER BY id"
    async with connected(empty_postgres_url) as connection:
        before = [number for (number,) in await connection.fetch(numbers)]
        await migrate(empty_postgres_url)
        after = [number for (number,) in await connection.fetch(numbers)]
    assert len(set(after)) == len(set(before)) == len(taken)
    assert not set(after) & set(before), "the server has made them"
    assert await running(old, "task:pair#") == 2 * len(taken)
    assert (await whole(old, node, family=PAIRS)).claims == []
    for (key, number), claims in taken.items():
        places = all_places(key + str(number) * number)
        for place in places:
            assert (await asked(old, node, place)).claims == [], place
        await finished(old, node, claims[:1])
        answer = await whole(old, node, family=PAIRS)
        assert [claim.lane for claim in answer.claims] == places[:1], "one ended, one may begin"
        await finished(old, node, [*claims[1:], *answer.claims])
        found = (await asked(old, node, *places)).claims
        assert len(found) == 2
        assert len((await whole(old, node, family=PAIRS)).claims) == 0


async def test_what_was_put_back_before_the_upgrade_goes_first_afterwards(
    old: PostgresStore, empty_postgres_url: str
) -> None:
    node = await joined(old)
    later, parked, begun = (
        [serial(f"{kind} {key}") for key in KEYS] for kind in ("later", "parked", "begun")
    )
    later.append(Gate("task:whole"))
    jobs: dict[Gate, tuple[UUID, UUID]] = {}
    claims: dict[Gate, Claim] = {}
    for gate in (*later, *parked, *begun):
        first, second = await enqueued(old, behind(gate), behind(gate))
        jobs[gate] = first, second
        claims[gate] = await run_one(old, node, lane(gate))
    for gate in (*later, *parked):
        await old.settle_jobs(node, [retried(claims[gate], delay=3_600.0)])
    for gate in parked:
        await old.control_job(Verb.PAUSE, jobs[gate][0], Change())
    await migrate(empty_postgres_url)
    for gate in begun:
        await old.settle_jobs(node, [retried(claims[gate], delay=3_600.0)])
    for gate in jobs:
        assert (await asked(old, node, lane(gate))).claims == [], gate
    assert (await whole(old, node, family=SERIAL)).claims == []
    for gate in parked:
        await old.control_job(Verb.RESUME, jobs[gate][0], Change())
    for number, gate in enumerate(jobs):
        await old.control_job(Verb.RESCHEDULE, jobs[gate][0], Change(delay=NOW))
        for expected in jobs[gate]:
            if number % 2 or gate.name == "task:whole":
                found = (await asked(old, node, lane(gate))).claims
            else:
                found = (await whole(old, node, family=SERIAL)).claims
            assert [claim.id for claim in found] == [expected], gate
            await finished(old, node, found)


async def test_no_key_is_exceeded_by_claims_during_the_upgrade(
    old: PostgresStore, empty_postgres_url: str
) -> None:
    node, place = await joined(old), lane(pair("a"))
    await enqueued(old, *(behind(pair("a")) for _ in range(300)))
    upgraded = asyncio.Event()
    held, most, done = 0, 0, {False: 0, True: 0}

    async def work(by_lane: bool) -> None:
        nonlocal held, most
        while not upgraded.is_set() or done[True] < ENOUGH:
            is_new = upgraded.is_set()
            if is_new and not by_lane:
                claims = (await whole(old, node, room=1, family=PAIRS)).claims
            else:
                claims = (await asked(old, node, place, room=1)).claims
            held += len(claims)
            most = max(most, held)
            await asyncio.sleep(0)
            held -= len(claims)
            if claims:
                await finished(old, node, claims)
                await enqueued(old, behind(pair("a")))
                done[is_new] += 1

    async def upgrade() -> None:
        while done[False] < ENOUGH:  # noqa: ASYNC110  whatever they do meanwhile
            await asyncio.sleep(0)
        await migrate(empty_postgres_url)
        upgraded.set()

    async with asyncio.TaskGroup() as group:
        for number in range(6):
            group.create_task(work(by_lane=number % 2 == 0))
        group.create_task(upgrade())
    assert most == 2
