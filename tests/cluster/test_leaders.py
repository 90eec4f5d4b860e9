"""If these fail, a daemon or a chore runs on two machines at once, or on none, when one breaks."""

import asyncio
import re
import signal
import time
from collections.abc import AsyncIterator, Callable, Iterator
from datetime import datetime, timedelta
from typing import Any, Final

import pytest

from tests.cluster.database import connected, until
from tests.cluster.leading import TABLE
from tests.cluster.processes import ROOT, Start
from tests.node_process import launching

APP: Final = "tests.cluster.leading:app"
ROLE: Final = "daemon:heart"
#: A frozen process is pre-empted when its lease is over; so that this need not take long.
SHORT: Final = {
    "DETENT_CLUSTER_LEADER_CHECK": "1s",
    "DETENT_CLUSTER_LEASE": "3s",
    "DETENT_CLUSTER_HEARTBEAT_INTERVAL": "1s",
}

SELDOM: Final = {"DETENT_CLUSTER_LEADER_CHECK": "5m"}


@pytest.fixture
def launch() -> Iterator[Start]:
    """Start nodes with the daemon that end with the test."""
    with launching(APP, ROOT) as start:
        yield start


@pytest.fixture
async def database(postgres_url: str) -> AsyncIterator[Any]:
    """A connection beside the nodes, on a database with a table for the heartbeats."""
    async with connected(postgres_url) as connection:
        await connection.execute(TABLE)
        yield connection


async def leader(database: Any, role: str = ROLE) -> tuple[int, str | None]:
    """Return term and node of a role; term 0 before it was ever led."""
    row = await database.fetchrow(
        "SELECT term, name FROM detent.detent_leader WHERE role = $1", role
    )
    return (0, None) if row is None else (row["term"], row["name"])


async def until_leader(
    database: Any, right: Callable[[tuple[int, str | None]], bool], patience: float = 30.0
) -> tuple[int, str | None]:
    """Wait for a leader of the daemon."""
    found: list[tuple[int, str | None]] = []

    async def is_right() -> bool:
        found[:] = [await leader(database)]
        return right(found[0])

    await until(is_right, "the right leader", patience, pause=0.01)
    return found[0]


async def until_listening(database: Any, count: int) -> None:
    """Wait until so many nodes hear what others tell: the last that they ask before is this."""

    async def listening() -> bool:
        found: int = await database.fetchval(
            "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database()"
            " AND state = 'idle' AND query LIKE '%pg_is_in_recovery()%'"
        )
        return found >= count

    await until(listening, f"{count} nodes that listen", pause=0.01)


async def until_beating(database: Any, term: int) -> None:
    async def beats() -> bool:
        return bool(await database.fetchval("SELECT count(*) FROM beat WHERE term = $1", term))

    await until(beats, f"a heartbeat in term {term}", pause=0.01)


async def check_beats(database: Any) -> None:
    """Nothing was written under a term after the first heartbeat of the next."""
    terms = [row["term"] for row in await database.fetch("SELECT term FROM beat ORDER BY number")]
    assert terms == sorted(terms), "a heartbeat of an old term was accepted"
    of_term = await database.fetch("SELECT term, count(DISTINCT pid) FROM beat GROUP BY 1")
    assert all(row["count"] == 1 for row in of_term), "two processes under one term"


@pytest.mark.slow
async def test_a_killed_leader_is_followed_within_seven_seconds(
    postgres_url: str, launch: Start, database: Any
) -> None:
    """With the settings as they are: others ask every 5 s, and wait 2 s when the lock is free."""
    first = launch(postgres_url, "--name", "first")
    await until_leader(database, lambda found: found == (1, "first"))
    others = [launch(postgres_url, "--name", f"other-{number}") for number in range(2)]
    for node in others:
        await asyncio.to_thread(node.wait_for, "started; taking jobs")
    await until_beating(database, 1)
    await asyncio.sleep(0.5)  # they have asked once by now: it takes nearly a whole check
    first.kill()
    killed = time.monotonic()
    _, name = await until_leader(database, lambda found: found[0] == 2, 8.0)
    took = time.monotonic() - killed
    assert took <= 7.0, f"{took:.2f} s"
    assert name != "first"
    await until_beating(database, 2)
    # The other roles have gone over as well, one term each.
    for role in ("scheduler", "maintenance"):
        assert (await leader(database, role))[0] <= 2
    await check_beats(database)
    print(f"followed after {took:.2f} s")  # noqa: T201  for whoever looks


@pytest.mark.slow
async def test_a_frozen_leader_is_pre_empted_and_what_it_writes_then_is_refused(
    postgres_url: str, launch: Start, database: Any
) -> None:
    first = launch(postgres_url, "--name", "first", **SHORT)
    await until_leader(database, lambda found: found == (1, "first"))
    second = launch(postgres_url, "--name", "second", **SHORT)
    await asyncio.to_thread(second.wait_for, "started; taking jobs")
    await until_beating(database, 1)
    first.signal(signal.SIGSTOP)
    ends: list[datetime] = []

    async def pre_empted() -> bool:
        query = "SELECT term, since, lease_until FROM detent.detent_leader WHERE role = $1"
        term, since, lease_until = await database.fetchrow(query, ROLE)
        ends.append(since if term == 2 else lease_until)
        return bool(term == 2)

    await until(pre_empted, "the second to lead", pause=0.01)
    *_, lease_until, since = ends
    # It is asked for every second, and may be taken from the moment on when the lease has ended.
    assert timedelta(0) <= since - lease_until <= timedelta(seconds=1 + 1.5)
    await until_beating(database, 2)
    beats = await database.fetchval("SELECT count(*) FROM beat WHERE term = 1")
    first.signal(signal.SIGCONT)
    # It learns what happened, joins anew, and does not disturb the second.
    await asyncio.to_thread(first.wait_for, "no longer leads daemon:heart (term 1)")
    await asyncio.to_thread(first.wait_for, "daemon heart (term 1) stopped")
    assert await database.fetchval("SELECT count(*) FROM beat WHERE term = 1") == beats
    await asyncio.sleep(2)
    assert await leader(database) == (2, "second")
    await check_beats(database)
    # And takes over again when its turn comes.
    second.signal()
    await until_leader(database, lambda found: found == (3, "first"), 5.0)
    await until_beating(database, 3)
    await check_beats(database)


@pytest.mark.slow
async def test_a_leader_that_leaves_is_followed_within_a_second(
    postgres_url: str, launch: Start, database: Any
) -> None:
    """With checks so seldom that it can only have been told."""
    names = ("first", "second")
    nodes = {name: launch(postgres_url, "--name", name, **SELDOM) for name in names}
    for node in nodes.values():
        await asyncio.to_thread(node.wait_for, "started; taking jobs")
    _, name = await until_leader(database, lambda found: found[0] == 1)
    assert name is not None
    await until_beating(database, 1)
    await until_listening(database, 2)
    nodes[name].signal()
    signaled = time.monotonic()
    _, follower = await until_leader(database, lambda found: found[0] == 2, 5.0)
    took = time.monotonic() - signaled
    assert took <= 1.0, f"{took:.2f} s"
    assert follower not in (name, None)
    assert await asyncio.to_thread(nodes[name].ended) == 0
    await until_beating(database, 2)
    await check_beats(database)
    # The roles without a daemon too, one step each.
    for role in ("scheduler", "maintenance"):
        assert (await leader(database, role))[0] <= 2
    said = nodes[name].said()
    assert re.search(r"gave up daemon:heart \(term 1\); others are told", said)
    print(f"followed after {took:.2f} s")  # noqa: T201  for whoever looks


@pytest.mark.slow
async def test_of_eight_nodes_that_start_at_once_one_leads(
    postgres_url: str, launch: Start, database: Any
) -> None:
    nodes = [launch(postgres_url, "--name", f"node-{number}") for number in range(8)]
    ids = {node.id: node for node in nodes}
    await until_beating(database, 1)
    await asyncio.sleep(6)  # a round of checks
    rows = await database.fetch("SELECT role, term, node FROM detent.detent_leader ORDER BY role")
    assert [(row["role"], row["term"]) for row in rows] == [
        (ROLE, 1),
        ("maintenance", 1),
        ("scheduler", 1),
    ]
    assert all(row["node"] in ids for row in rows)
    said = "".join(node.said() for node in nodes)
    assert said.count("leads daemon:heart now, in term 1") == 1
    assert "no longer leads" not in said
    await check_beats(database)
