"""Jobs, queues and nodes that look the same every time: one job in each state, at fixed times.

They are made by the store itself; only the clock is set afterwards, by SQL.
"""

import json
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import Any, Final
from uuid import UUID

import asyncpg

from detent.model.job import Claim, Hook, Keys, LogLine, NewJob, Priority, Progress, Settlement
from detent.model.state import State, Verb
from detent.options import write_options
from detent.spi.nodes import NodeIdentity
from detent.spi.scans import LaneScan
from detent.spi.store import Change, ClaimRequest
from detent.stores.postgres import PostgresStore

NOW: Final = datetime(2025, 1, 15, 10, 0, tzinfo=UTC)
LEASE: Final = timedelta(days=1)

WEB_1: Final = UUID("01946962-0000-7000-8000-0000000000a1")
OLD: Final = UUID("01946962-0000-7000-8000-0000000000a2")


def job_id(number: int) -> UUID:
    """The id of an exhibit; ids grow with the numbers."""
    return UUID(f"01946962-{number:04}-7000-8000-{number:012}")


PENDING, LATER, RUNNING, PAUSED, UNKNOWN, SUCCEEDED, FAILED, CANCELED = map(job_id, range(1, 9))


def new_job(exhibit: UUID, task: str, queue: str, args: dict[str, Any], **more: Any) -> NewJob:
    values: dict[str, Any] = {
        "id": exhibit,
        "task": task,
        "queue": queue,
        "lane": queue,
        "priority": int(Priority.NORMAL),
        "delay": 0.0,
        "due_at": None,
        "args": json.dumps(args).encode(),
        "codec": "json",
        "options": None,
        "params": None,
        "tags": None,
        "hooks": 0,
        "principal": None,
        "trace": None,
    }
    return NewJob(**(values | more))


async def exhibit(url: str) -> None:
    """Put everything in its place."""
    store = PostgresStore(url)
    try:
        await store.open()
        await _join(store)
        await _ended(store)
        await _living(store)
    finally:
        await store.close()
    await _set_clock(url)


async def _join(store: PostgresStore) -> None:
    for incarnation, name, queues in (
        (WEB_1, "web-1", {"mail": 20, "default": 50}),
        (OLD, "web-2", {"reports": 5}),
    ):
        await store.join(
            NodeIdentity(incarnation, name, "host.example", 4711, "0.1.0", queues), LEASE
        )


async def _claim(store: PostgresStore, job: NewJob) -> Claim:
    await store.enqueue_jobs([job])
    return await _claim_next(store, job.queue)


async def _claim_next(store: PostgresStore, queue: str) -> Claim:
    scans = [LaneScan(queue, queue, 1)]
    (claim,) = await store.claim_jobs(ClaimRequest(WEB_1, scans, 1, timedelta(0), 10_000))
    return claim


def _error(kind: str, message: str) -> bytes:
    text = f'Traceback (most recent call last):\n  File "shop.py", line 9\n{kind}: {message}\n'
    return json.dumps({"type": kind, "message": message, "traceback": text}).encode()


def _end(claim: Claim, state: State, **more: Any) -> Settlement:
    values: dict[str, Any] = {
        "id": claim.id,
        "fence": claim.fence,
        "task": claim.task,
        "queue": claim.lane,
        "lasted": 1.5,
        "result": None,
        "state": state,
        "delay": None,
        "charged": False,
        "kind": None,
        "error": None,
        "reason": None,
    }
    return Settlement(**(values | more))


async def _ended(store: PostgresStore) -> None:
    claim = await _claim(
        store, new_job(SUCCEEDED, "shop.invoice", "default", {"order": 42}, tags=["vip", "eu"])
    )
    lines = (("info", "found order 42"), ("warning", "no tax \x1b[31mnumber"))
    await store.append_log(
        WEB_1, [LogLine(claim.id, claim.fence, 1, level, text) for level, text in lines]
    )
    await _settle(store, _end(claim, State.SUCCEEDED, result=b'{"invoice": "2025-0042"}'))
    refused = _error("SMTPRefused", "mailbox unavailable")
    claim = await _claim(
        store,
        new_job(FAILED, "shop.send", "mail", {"to": "ada@example.com", "body": "x" * 400}),
    )
    await _settle(
        store,
        _end(claim, State.PENDING, delay=0.0, charged=True, kind="failed", error=refused),
    )
    claim = await _claim_next(store, "mail")
    await _settle(store, _end(claim, State.FAILED, charged=True, kind="failed", error=refused))
    await store.enqueue_jobs([new_job(CANCELED, "shop.send", "mail", {"to": "bob@example.com"})])
    await store.control_job(Verb.CANCEL, CANCELED, Change(reason="order withdrawn"))


async def _settle(store: PostgresStore, end: Settlement) -> None:
    assert await store.settle_jobs(WEB_1, [end]) == [end.id]


async def _living(store: PostgresStore) -> None:
    claim = await _claim(store, new_job(UNKNOWN, "shop.forgotten", "default", {}))
    await _settle(store, _end(claim, State.WAITING, reason="unknown_task"))
    claim = await _claim(store, new_job(RUNNING, "shop.export", "default", {"year": 2025}))
    await store.save_progress(WEB_1, [Progress(claim.id, claim.fence, 0.4, "4 of 10 files")])
    await store.enqueue_jobs([new_job(PAUSED, "shop.send", "mail", {"to": "eve@example.com"})])
    await store.control_job(Verb.PAUSE, PAUSED, Change())
    later = new_job(
        LATER,
        "shop.remind",
        "mail",
        {"user": 7},
        priority=int(Priority.HIGH),
        delay=3600.0,
        hooks=int(Hook.KEY),
        options=write_options(timedelta(seconds=30), None, "ada"),
        params=b'{"campaign": "summer"}',
        principal="ada",
    )
    await store.enqueue_keyed(later, Keys(idempotency="remind-7", unique="user-7"))
    await store.enqueue_jobs([new_job(PENDING, "shop.report", "reports", {"month": "2024-12"})])
    await store.pause_queue("reports")


async def postpone(url: str) -> None:
    """Let the job that is to run later be so by the clock of the database, too."""
    statement = f"UPDATE detent.detent_ready SET due_at = 'infinity' WHERE id = '{LATER}'"
    await _execute(url, [statement])


async def _set_clock(url: str) -> None:
    """Let everything have happened in the minutes before ten o'clock."""
    await _execute(url, _statements())


async def _execute(url: str, statements: Sequence[str]) -> None:
    connection = await asyncpg.connect(url)
    try:
        for statement in statements:
            await connection.execute(statement)
    finally:
        await connection.close()


def _statements() -> Sequence[str]:
    now = f"timestamptz '{NOW.isoformat()}'"
    enqueued = f"{now} - interval '1 minute' * (10 - right(id::text, 1)::int)"
    later = f"{now} + interval '5 minutes'"
    due = f"CASE id WHEN '{LATER}' THEN {later} ELSE {enqueued} END"
    started = f"{enqueued} + interval '10 seconds'"
    ended = f"{started} + interval '1.5 seconds'"
    lease = "interval '1 second' * CASE name WHEN 'web-1' THEN 12 ELSE -40 END"
    changes = {
        "job": f"enqueued_at = {enqueued}, due_at = {due}",
        "ready": f"due_at = {due}",
        "parked": f"due_at = {due}",
        "running": f"due_at = {due}, claimed_at = {started}",
        "outcome": f"finished_at = {ended}, started_at = started_at - started_at + {started}",
        "attempt": f"started_at = {started}, ended_at = {ended} + interval '1 ms' * number",
        "log": f"at = {started} + interval '1 second'",
        "node": f"started_at = {now} - interval '1 hour' / right(incarnation::text, 1)::int,"
        f" heartbeat_at = {now} - interval '3 seconds', lease_until = {now} + {lease}",
    }
    return [f"UPDATE detent.detent_{table} SET {change}" for table, change in changes.items()]
