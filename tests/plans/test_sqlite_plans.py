"""If these fail, a statement on SQLite reads tables from end to end, and grows slow with them."""

import re
import sqlite3
from collections.abc import AsyncIterator, Iterator
from importlib.resources import files
from pathlib import Path
from typing import Final

import pytest

import detent.stores.sqlite
from detent.spi.store import ClaimRequest
from detent.stores.sqlite import SqliteStore
from detent.stores.sqlite.connection import open_writer
from detent.stores.sqlite.migrations import migrate
from detent.stores.sqlite.statements import sql
from detent.testing.conformance.builders import claim_request, completion, lane_scan, new_job
from detent.testing.conformance.steps import claimed, joined

FOLDER: Final = files(detent.stores.sqlite).joinpath("sql")
_STEP: Final = re.compile(r"^-- step: (\w+)$", re.MULTILINE)
_NUMBER: Final = re.compile(r"\?(\d+)")
_SCAN: Final = re.compile(r"SCAN (\w+)(?! VIRTUAL)")

#: Tables that hold a row for each node, role, lock, queue or message: few, whatever the backlog.
SMALL: Final = {
    "detent_node",
    "detent_leader",
    "detent_lock",
    "detent_breaker",
    "detent_daemon",
    "detent_queue",
    "detent_signal",
    "detent_fence",
}
#: Who reads a bigger table from end to end, and why that is right.
WHOLE: Final = {
    ("delete_calendar", "used"): "for people, and seldom",
    ("get_calendars", "all"): "all of the few there are",
    ("queues", ""): "counts, for people",
    ("claims_of", ""): "running jobs are as many as there are slots; a node asks once a minute",
    ("leave_node", ""): "once at the end of a node",
    ("forget_nodes", ""): "now and then, by whoever leads",
    ("find_lost", ""): "running jobs are as many as there are slots",
    ("lost_claims", ""): "the same, when nodes have died",
    ("unexamined_nodes", "claims"): "the same",
    ("find_adrift", ""): "the same, by whoever leads",
    ("adopt_jobs", "any"): "the index of jobs that no node knows, which is nearly always empty",
    ("adopt_jobs", "ready"): "the same",
    ("adopt_jobs", "gone"): "the same",
    ("list_limits", ""): "for people",
    ("forget_rates", "buckets"): "now and then, by whoever leads",
    ("forget_rates", "passes"): "the same",
    ("forget_holds", ""): "the same",
}


def statements() -> Iterator[tuple[str, str]]:
    for entry in sorted(FOLDER.iterdir(), key=lambda entry: entry.name):
        name = entry.name.removesuffix(".sql")
        for step in _STEP.findall(entry.read_text(encoding="utf-8")) or [""]:
            yield name, step


@pytest.fixture(scope="module")
def connection(tmp_path_factory: pytest.TempPathFactory) -> Iterator[sqlite3.Connection]:
    path = str(tmp_path_factory.mktemp("plans") / "jobs.db")
    migrate(path)
    connection = open_writer(path, 1.0)
    yield connection
    connection.close()


def plan(connection: sqlite3.Connection, text: str) -> list[str]:
    count = max(map(int, _NUMBER.findall(text)), default=0)
    rows = connection.execute(f"EXPLAIN QUERY PLAN {text}", [None] * count)
    return [row[3] for row in rows]


def aliases(text: str) -> dict[str, str]:
    """What the short names in a statement stand for."""
    return {short: table for table, short in re.findall(r"\b(detent_\w+) AS (\w+)", text)}


@pytest.mark.parametrize("name, step", list(statements()))
def test_no_table_is_read_from_end_to_end(
    connection: sqlite3.Connection, name: str, step: str
) -> None:
    text = sql(name, step)
    tables = {row[0] for row in connection.execute("SELECT name FROM sqlite_master")}
    scanned = {
        aliases(text).get(found[1], found[1])
        for line in plan(connection, text)
        if (found := _SCAN.match(line))
    }
    big = {table for table in scanned & tables if table not in SMALL}
    assert not big or (name, step) in WHOLE, (big, plan(connection, text))


def test_every_exception_is_still_one(connection: sqlite3.Connection) -> None:
    for name, step in WHOLE:
        assert any("SCAN" in line for line in plan(connection, sql(name, step))), (name, step)


def test_a_claim_reads_the_heads_of_five_priorities_by_index(
    connection: sqlite3.Connection,
) -> None:
    lines = plan(connection, sql("claim_jobs", "heads"))
    searches = [line for line in lines if "detent_ready" in line]
    wanted = "(lane=? AND priority=? AND (due_at,id)>(?,?) AND due_at<?)"
    assert searches == [f"SEARCH detent_ready USING INDEX detent_ready_claim {wanted}"] * 5
    (due,) = [line for line in plan(connection, sql("claim_jobs", "due")) if "ready" in line]
    assert due.endswith("detent_ready_claim (lane=? AND priority=? AND due_at<?)")


@pytest.mark.parametrize("name, step", [("take_events", "due"), ("next_event", "")])
def test_a_long_outbox_is_read_in_the_order_of_its_index(
    connection: sqlite3.Connection, name: str, step: str
) -> None:
    """Sorting it would look at every event that waits, and at the others of its job, each time."""
    lines = plan(connection, sql(name, step))
    assert any("USING INDEX detent_event_due" in line for line in lines), lines
    assert not any("TEMP B-TREE" in line for line in lines), lines


# What a claim costs, in steps of SQLite's machine: the same everywhere, at any time.


class Meter:
    """Counts steps by tens."""

    def __init__(self) -> None:
        self.count = 0

    def __call__(self) -> None:
        self.count += 1


@pytest.fixture
async def store(tmp_path: Path) -> AsyncIterator[SqliteStore]:
    store = SqliteStore(str(tmp_path / "jobs.db"))
    await store.open()
    yield store
    await store.close()


async def cost(store: SqliteStore, request: ClaimRequest) -> int:
    meter = Meter()
    await store.database.write(lambda session: session.connection.set_progress_handler(meter, 10))
    assert len(await store.claim_jobs(request)) == request.limit
    return meter.count


async def test_a_claim_costs_the_same_at_any_backlog(store: SqliteStore) -> None:
    node = await joined(store)
    request = claim_request(node, lane_scan(room=100), limit=100)
    for priority in range(5):
        await store.enqueue_jobs([new_job(priority=priority) for _ in range(100)])
    alone = await cost(store, request)
    for _ in range(10):
        await store.enqueue_jobs([new_job(priority=n % 5) for n in range(1000)])
    assert await cost(store, request) <= alone * 1.1, "behind others of the lane"
    for _ in range(10):
        await store.enqueue_jobs([new_job("other", needs=["gpu"], priority=4) for _ in range(1000)])
        await store.enqueue_jobs([new_job(delay=3600, priority=4) for _ in range(1000)])
    assert await cost(store, request) <= alone * 1.1, "beside other lanes, and future jobs"
    done = await claimed(store, node, limit=2000)
    await store.finish_jobs(node, [completion(claim) for claim in done])
    assert await cost(store, request) <= alone * 1.1, "with a history"
