"""If these fail, cleaning up costs more the longer the history, or others have to wait for it.

Pages touched are counted, not seconds: they are the same on every machine.
"""

import asyncio
from collections.abc import AsyncIterator, Callable
from datetime import timedelta
from typing import Any, Final
from uuid import UUID

import asyncpg
import pytest

from detent.errors import StoreUnavailable
from detent.model.job import JobFilter
from detent.model.retention import Action, Rule
from detent.model.state import State
from detent.spi.retention import Mark, PrunedPage
from detent.stores.postgres import PostgresStore
from detent.stores.postgres.database import Connection
from detent.stores.postgres.retention import READ, _asked
from detent.testing.conformance.builders import prune_request
from detent.testing.conformance.retention import pruned
from tests.plans.plan import Explained, Plan, condition, used_index
from tests.plans.situations import EMPTY, FEW, FRESH, MANY

Explain = Callable[[str], Plan]
SITUATIONS: Final = [FRESH, EMPTY, FEW, MANY]
LITTLE, MUCH = 1_000, 100_000
DAY: Final = timedelta(days=1)
WEEK: Final = 7 * DAY

#: Jobs that ended, numbered from $1 on: their ids are made at that time, as clients make them.
_FINISH = """
WITH job AS (
    INSERT INTO detent.detent_job
        (id, task, queue, lane, priority, due_at, enqueued_at, args, codec)
    SELECT (lpad(to_hex((1000 * extract(epoch FROM at))::bigint), 12, '0') || '7000a000'
            || lpad(to_hex(n), 12, '0'))::uuid,
        'shop.send', $4, $4, 2, at, at, '[]', 'json'
    FROM generate_series(1, $1::integer) AS n,
        LATERAL (SELECT now() - $2::interval + n * interval '1 ms') AS past (at)
    RETURNING id, task, queue, enqueued_at
)
INSERT INTO detent.detent_outcome (id, generation, attempt, finished_at, state, task, queue)
SELECT id, 1, 1, enqueued_at, $3, task, queue FROM job RETURNING id
"""


class History:
    """A store full of what has ended, and its look for what may go."""

    def __init__(self, store: PostgresStore, connection: Connection) -> None:
        self.store = store
        self.connection = connection
        self._statement: Explained | None = None

    async def add(
        self, rows: int, age: timedelta, state: State = State.SUCCEEDED, queue: str = "default"
    ) -> list[UUID]:
        found = await self.connection.fetch(_FINISH, rows, age, state, queue)
        return sorted(row["id"] for row in found)

    async def look(self, **options: Any) -> Plan:
        """Look for what may go; the plan is kept from the first look on, when little was there."""
        if self._statement is None:
            sql = self.store.database.sql("old_jobs")
            self._statement = await Explained.prepare(self.connection, "old_jobs", sql)
        return await self._statement.run(*_asked(prune_request(**options)))

    async def count(self, table: str) -> int:
        count: int = await self.connection.fetchval(f"SELECT count(*) FROM detent.{table}")
        return count


@pytest.fixture
async def history(postgres_url: str) -> AsyncIterator[History]:
    store = PostgresStore(postgres_url)
    async with store.database.connection() as connection:
        history = History(store, connection)
        assert (await history.look()).rows == 0
        yield history
    await store.close()


# ---------------------------------------------------------------- plans


@pytest.mark.parametrize("situation", SITUATIONS)
def test_a_look_goes_along_an_index_to_its_end(explain: Explain) -> None:
    plan = explain("old_jobs")
    by_id, by_time = sorted(plan.scans("detent_outcome"), key=used_index)
    assert used_index(by_id) == "detent_outcome_pkey"
    assert "(id > $3)" in condition(by_id)
    assert "(id < bound.id)" in condition(by_id)
    assert used_index(by_time) == "detent_outcome_state"
    assert "(state = $1)" in condition(by_time)
    assert "(ROW(finished_at, id) > ROW($2, $3))" in condition(by_time)
    assert "(finished_at <= bound" in condition(by_time)
    # What is read counts towards the limit; a filter would read on without an end.
    assert "Filter" not in by_id
    assert "Filter" not in by_time
    assert not [node for node in plan.nodes() if node["Node Type"] == "LockRows"]


@pytest.mark.parametrize("situation", SITUATIONS)
def test_rows_are_taken_by_their_place(explain: Explain) -> None:
    plan = explain("prune_jobs")
    for table in ("detent_outcome", "detent_job", "detent_key"):
        kinds = [scan["Node Type"] for scan in plan.scans(table)]
        assert "Tid Scan" in kinds, table
    assert plan.whole_reads == []


@pytest.mark.parametrize("situation", SITUATIONS)
@pytest.mark.parametrize(
    "name, index",
    [("prune_keys", "detent_key_expires_at"), ("prune_archive", "detent_archive_archived_at")],
)
def test_what_has_expired_is_found_by_time(explain: Explain, name: str, index: str) -> None:
    plan = explain(name)
    (table,) = set(plan.tables_read) - {"detent_leader"}
    # A handful of rows, one for each role.
    assert set(plan.whole_reads) <= {"detent_leader"}
    assert sorted(used_index(scan) for scan in plan.scans(table)) == sorted(["Tid Scan", index])


# ---------------------------------------------------------------- cost


@pytest.mark.parametrize("state", [State.SUCCEEDED, State.FAILED], ids=str)
async def test_a_page_costs_the_same_at_any_length_of_history(
    history: History, state: State
) -> None:
    await history.add(LITTLE, 30 * DAY, state)
    options: dict[str, Any] = {"state": state, "keep": WEEK, "limit": 100}
    before = (await history.look(**options)).buffers
    await history.add(MUCH, 20 * DAY, state)
    assert (await history.look(**options)).buffers < 2 * before
    # Neither does it in the middle.
    place = await history.connection.fetchrow(
        "SELECT finished_at, id FROM detent.detent_outcome ORDER BY id OFFSET $1 LIMIT 1", MUCH // 2
    )
    found = await history.look(**options, after=Mark(*place))
    assert found.rows == 100
    assert found.buffers < 2 * before


@pytest.mark.parametrize("state", [State.SUCCEEDED, State.FAILED], ids=str)
async def test_young_jobs_are_not_read(history: History, state: State) -> None:
    await history.add(MUCH, DAY, state)
    assert (await history.look(state=state, keep=WEEK)).buffers < 20


async def test_what_stays_is_read_in_bounds(history: History) -> None:
    await history.add(MUCH, 30 * DAY, queue="audit")
    rules = {"audit": Rule(None)}
    found = await history.look(keep=WEEK, queues=rules, limit=100)
    assert found.rows == 1, "only how far it came"
    # An index page holds hundreds of entries; one touch for each row, and a few more.
    assert found.buffers < 2 * 100 * READ


async def test_a_page_that_is_full_reads_no_more_than_it_takes(history: History) -> None:
    await history.add(MUCH, 30 * DAY)
    found = await history.look(keep=WEEK, limit=100)
    assert found.rows == 100
    assert found.buffers < 3 * 100


async def test_a_long_history_is_swept_to_its_end(history: History) -> None:
    await history.add(5_000, 30 * DAY)
    await history.add(300, 20 * DAY, queue="mail")
    await history.add(5_000, 10 * DAY)
    young = await history.add(500, DAY, queue="mail")
    failed = await history.add(50, 30 * DAY, State.FAILED)
    pages = await pruned(history.store, keep=None, queues={"mail": Rule(WEEK)}, limit=100)
    assert sum(page.deleted for page in pages) == 300
    assert await history.count("detent_outcome") == await history.count("detent_job") == 10_550
    pages = await pruned(history.store, keep=WEEK, limit=1_000)
    assert sum(page.deleted for page in pages) == 10_000
    left = await history.connection.fetch("SELECT id FROM detent.detent_outcome ORDER BY id")
    assert [row["id"] for row in left] == sorted([*young, *failed])


async def test_a_page_of_failed_jobs_costs_the_same_however_many_have_failed(
    history: History,
) -> None:
    sql = history.store.database.sql("matching_jobs")
    listing = await Explained.prepare(history.connection, "listing", sql)
    lowest, highest = UUID(int=0), UUID(int=(1 << 128) - 1)
    every = (["failed"], None, None, None, None, lowest, highest)
    assert (await listing.run(*every, highest, 50)).rows == 0
    await history.add(LITTLE, DAY, State.FAILED)
    before = (await listing.run(*every, highest, 50)).buffers
    ids = await history.add(MUCH, 2 * DAY, State.FAILED)
    await history.add(MUCH, 3 * DAY)
    for below in (highest, ids[MUCH // 2], ids[60]):
        page = await listing.run(*every, below, 50)
        assert page.rows == 50
        assert page.buffers < 2 * before


# ---------------------------------------------------------------- others


async def only(history: History, **options: Any) -> PrunedPage:
    (page,) = await pruned(history.store, **options)
    return page


async def test_a_row_that_somebody_holds_is_left_for_the_next_time(
    history: History, postgres_url: str
) -> None:
    first, second, third = await history.add(3, 30 * DAY)
    other = await asyncpg.connect(postgres_url)
    try:
        transaction = other.transaction()
        await transaction.start()
        await other.execute("DELETE FROM detent.detent_outcome WHERE id = $1", second)
        async with asyncio.timeout(10):  # it does not wait
            page = await only(history)
        assert (page.deleted, page.busy, page.problem) == (2, False, None)
        await transaction.rollback()
    finally:
        await other.close()
    assert [found.id for found in await history.store.get_jobs([first, second, third])] == [second]
    assert (await only(history)).deleted == 1


async def test_while_one_prunes_another_steps_back(history: History, postgres_url: str) -> None:
    await history.add(3, 30 * DAY)
    other = await asyncpg.connect(postgres_url)
    try:
        turn = "SELECT pg_advisory_lock(hashtextextended('detent prune detent', 0))"
        await other.execute(turn)
        page = await only(history)
        assert (page.busy, page.deleted) == (True, 0)
    finally:
        await other.close()
    # The server may take a moment to notice that the session has ended.
    async with asyncio.timeout(10):
        while (page := await only(history)).busy:  # noqa: ASYNC110
            await asyncio.sleep(0.01)
    assert page.deleted == 3


async def test_schedulers_in_one_database_do_not_wait_for_each_other(
    history: History, postgres_url: str
) -> None:
    await history.add(1, 30 * DAY)
    other = await asyncpg.connect(postgres_url)
    try:
        await other.execute("SELECT pg_advisory_lock(hashtextextended('detent prune other', 0))")
        assert (await only(history)).deleted == 1
    finally:
        await other.close()


@pytest.mark.parametrize("action", Action, ids=str)
async def test_one_bad_row_stops_nobody(history: History, action: Action) -> None:
    ids = await history.add(20, 30 * DAY)
    await history.connection.execute(
        f"""
        CREATE FUNCTION refuse() RETURNS trigger LANGUAGE plpgsql AS
        $$ BEGIN RAISE EXCEPTION 'this row is corrupt'; END $$;
        CREATE TRIGGER refuse BEFORE DELETE ON detent.detent_job
        FOR EACH ROW WHEN (old.id = '{ids[7]}') EXECUTE FUNCTION refuse();
        """
    )
    page = await only(history, action=action)
    assert page.deleted + page.archived == 19
    assert page.problem is not None
    assert str(ids[7]) in page.problem
    assert "this row is corrupt" in page.problem
    assert [found.id for found in await history.store.list_jobs(JobFilter(), 50)] == [ids[7]]


async def test_trouble_with_the_database_is_not_blamed_on_a_row(history: History) -> None:
    await history.add(4, 30 * DAY)
    url = history.store.database.address.url
    database = url.rpartition("/")[2]
    # As after a failover, when the old primary is a replica.
    await history.connection.execute(
        f"ALTER DATABASE {database} SET default_transaction_read_only = on"
    )
    store = PostgresStore(url)
    with pytest.raises(StoreUnavailable):
        await pruned(store)
    await store.close()
    assert await history.count("detent_outcome") == 4


async def test_a_job_that_another_waits_for_stays(history: History) -> None:
    awaited, other = await history.add(2, 30 * DAY)
    await history.connection.execute(
        "INSERT INTO detent.detent_parked (id, reason, waits_for, parked_at, due_at, attempt,"
        " generation, priority, crashes, hooks, lane)"
        " VALUES (gen_random_uuid(), 'replaces', $1, now(), now(), 1, 1, 2, 0, 1, 'default')",
        awaited,
    )
    assert (await only(history)).deleted == 1
    assert [found.id for found in await history.store.get_jobs([awaited, other])] == [awaited]


async def test_an_outcome_whose_job_is_missing_goes_too(history: History) -> None:
    (orphan,) = await history.add(1, 30 * DAY)
    await history.connection.execute("DELETE FROM detent.detent_job WHERE id = $1", orphan)
    assert (await only(history)).deleted == 1
    assert await history.count("detent_outcome") == 0


async def test_side_rows_go_with_their_job(history: History) -> None:
    """A success leaves its last progress, and a request that came too late, behind."""
    (job_id,) = await history.add(1, 30 * DAY)
    await history.connection.execute(
        f"""
        INSERT INTO detent.detent_progress (id, fraction, updated_at) VALUES ('{job_id}', 1, now());
        INSERT INTO detent.detent_signal (id, kind, created_at)
        VALUES ('{job_id}', 'cancel', now());
        INSERT INTO detent.detent_log (id, at, attempt, level, message)
        VALUES ('{job_id}', now(), 1, 'info', 'one'), ('{job_id}', now(), 1, 'info', 'two');
        INSERT INTO detent.detent_attempt (id, generation, number, kind, ended_at)
        VALUES ('{job_id}', 1, 1, 'failed', now());
        """
    )
    assert (await only(history)).deleted == 1
    for table in ("job", "outcome", "progress", "signal", "log", "attempt"):
        assert await history.count(f"detent_{table}") == 0, table


async def test_an_archived_job_keeps_large_values(history: History) -> None:
    (job_id,) = await history.add(1, 30 * DAY, State.FAILED)
    blob = bytes(range(256)) * 8_000  # far beyond what a row holds in place
    await history.connection.execute("UPDATE detent.detent_outcome SET error = $1", blob)
    await history.connection.execute("UPDATE detent.detent_job SET args = $1", blob[::-1])
    page = await only(history, state=State.FAILED, action=Action.ARCHIVE)
    assert page.archived == 1
    (found,) = await history.store.get_jobs([job_id])
    assert (found.error, found.args) == (blob, blob[::-1])
