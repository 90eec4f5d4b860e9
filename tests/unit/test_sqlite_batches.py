"""If these fail, a batch is too much for the file at once, or keeps it locked for too long."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from detent.errors import StoreError
from detent.model.job import JobFilter
from detent.model.state import State, Verb
from detent.spi.store import Change
from detent.stores.sqlite import SqliteStore, columns
from detent.stores.sqlite.columns import LAST_MOMENT, micros, moment, pieces, seconds, uuid, written
from detent.testing.conformance.builders import completion, failed, new_id, new_job
from detent.testing.conformance.steps import claimed, enqueued, info, joined, states_of


@pytest.fixture
async def store(tmp_path: Path) -> AsyncIterator[SqliteStore]:
    store = SqliteStore(str(tmp_path / "jobs.db"))
    await store.open()
    yield store
    await store.close()


async def transactions(store: SqliteStore) -> list[str]:
    """Return a list that grows with every statement of the writing connection."""
    seen: list[str] = []
    await store.database.write(lambda session: session.connection.set_trace_callback(seen.append))
    seen.clear()
    return seen


async def test_what_is_too_big_for_one_value_goes_in_pieces(
    store: SqliteStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(columns, "PIECE", 1000)
    jobs = [new_job(args=bytes([n]) * 300, tags=["vip"]) for n in range(20)]
    seen = await transactions(store)
    await store.enqueue_jobs([*jobs, new_job(args=b"x" * 5000)])
    assert seen.count("COMMIT") == 1, "all or none, however many pieces"
    node = await joined(store)
    claims = await claimed(store, node)
    assert [claim.args for claim in claims[:20]] == [job.args for job in jobs]
    ends = [completion(claim, b"y" * 400) for claim in claims]
    assert await store.finish_jobs(node, ends) == [claim.id for claim in claims]
    found = await store.get_jobs([job.id for job in jobs])
    assert {each.result for each in found} == {b"y" * 400}
    assert len(await store.list_jobs(JobFilter(tag="vip"), 100)) == 20


async def test_settling_in_pieces_loses_none(
    store: SqliteStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(columns, "PIECE", 1000)
    await enqueued(store, *(new_job() for _ in range(10)))
    node = await joined(store)
    claims = await claimed(store, node)
    said = [failed(claim, b"z" * 400) for claim in claims]
    assert len(await store.settle_jobs(node, said)) == 10
    assert {(await info(store, claim.id)).error for claim in claims} == {b"z" * 400}


async def test_big_changes_go_by_pages_that_are_short(store: SqliteStore) -> None:
    ids = await enqueued(store, *(new_job() for _ in range(1000)))
    seen = await transactions(store)
    assert await store.control_page(Verb.CANCEL, JobFilter(), 1000, Change()) == 1000
    assert seen.count("COMMIT") == 5
    seen.clear()
    assert await store.delete_page(JobFilter(), 1000) == 1000
    assert seen.count("COMMIT") == 5
    assert await store.get_jobs(ids) == []
    await enqueued(store, *(new_job() for _ in range(1000)))
    node = await joined(store)
    claims = await claimed(store, node, limit=1000)
    seen.clear()
    assert await store.release_claims(node, [claim[:2] for claim in claims]) == len(claims)
    assert seen.count("COMMIT") == -(-len(claims) // 500)


@pytest.mark.parametrize("many", [False, True], ids=["alone", "in a batch"])
@pytest.mark.parametrize("task", ["shop.\x00send", "shop.\ud800"], ids=["NUL", "surrogate"])
async def test_a_text_that_would_come_back_changed_is_refused(
    store: SqliteStore, task: str, many: bool
) -> None:
    jobs = [new_job(task=task), *([new_job()] if many else [])]
    with pytest.raises(StoreError, match="SQLite"):
        await store.enqueue_jobs(jobs)
    assert await store.get_jobs([job.id for job in jobs]) == []


async def test_a_time_beyond_all_times_is_the_last_one(store: SqliteStore) -> None:
    ids = await enqueued(store, new_job(delay=1e30), new_job(delay=1e12))
    assert [(await info(store, job_id)).due_at for job_id in ids] == [moment(LAST_MOMENT)] * 2
    assert await states_of(store, ids) == [State.PENDING] * 2


def test_values_come_back_as_they_were() -> None:
    job_id = new_id()
    assert uuid(job_id.hex) == job_id
    assert moment(micros(moment(1_234_567_890_123_457))) == moment(1_234_567_890_123_457)
    assert seconds(-1e30) == -LAST_MOMENT
    assert written(["\\u0000"]) == '["\\\\u0000"]', "the letters, not the character"


def test_pieces_hold_everything_once() -> None:
    values = [10, columns.PIECE, 5, columns.PIECE - 5, 1]
    assert list(pieces(values, int)) == [[10], [columns.PIECE], [5, columns.PIECE - 5], [1]]
    assert list(pieces([], int)) == []
