"""Schedules, calendars, leaders, daemons and locks that look the same every time.

They are made by the store itself; only the clock is set afterwards, by SQL. It is far ahead, for
what is held is listed only until its time is over.
"""

from dataclasses import replace
from datetime import UTC, date, datetime, timedelta
from typing import Any, Final
from uuid import UUID

import asyncpg

from detent.calendars import Holidays, Weekly
from detent.model.calendars import calendar_bytes
from detent.model.schedule import (
    Firing,
    Misfire,
    Overlap,
    Owner,
    PlannedSlot,
    Schedule,
    ScheduleInfo,
    SlotState,
)
from detent.model.triggers import trigger_bytes
from detent.options import write_options
from detent.spi.daemons import DaemonReport
from detent.spi.leadership import Bid, Candidate, Term
from detent.spi.nodes import NodeIdentity
from detent.stores.postgres import PostgresStore
from detent.triggers import Cron, Interval, Once, Trigger
from tests.cli.exhibition import job_id, new_job

NOW: Final = datetime(2125, 1, 15, 10, 0, tzinfo=UTC)
WEB_1: Final = UUID("01946962-0000-7000-8000-0000000000a1")
HOLDER: Final = UUID("01946962-0000-7000-8000-0000000000b1")
HOUR: Final = timedelta(hours=1)
LEASE: Final = timedelta(days=1)


def _schedule(name: str, trigger: Trigger, **more: Any) -> Schedule:
    firing = Firing("shop.clean", "chores", "chores", 2, b'{"depth": 3}', "json")
    return Schedule(name, trigger_bytes(trigger), firing, **more)


def _schedules() -> list[ScheduleInfo]:
    night = datetime(2125, 1, 16, 2, tzinfo=UTC)
    nightly = _schedule(
        "nightly",
        Cron("0 3 * * MON-FRI", "Europe/Berlin"),
        owner=Owner.CODE,
        calendars=("closed",),
        misfire=Misfire.CATCH_UP,
        catch_up_limit=3,
        overlap=Overlap.SKIP,
        jitter=timedelta(minutes=5),
        max_runs=100,
        description="Throws away what nobody needs",
        group="chores",
    )
    options = write_options(timedelta(seconds=30), None)
    firing = replace(nightly.firing, options=options, tags=("deep", "night"), priority=3)
    return [
        ScheduleInfo(
            replace(nightly, firing=firing),
            0,
            night,
            prev_fire=night - 24 * HOUR,
            runs=41,
            declared_at=NOW - timedelta(minutes=2),
            edited=("overlap", "timeout"),
        ),
        ScheduleInfo(_schedule("often", Interval(timedelta(minutes=5))), 0, NOW + HOUR / 12),
        ScheduleInfo(
            _schedule("rests", Cron("30 6 * * *", "Asia/Tokyo")),
            0,
            NOW + 11 * HOUR,
            paused_at=NOW - HOUR,
        ),
        ScheduleInfo(
            replace(
                _schedule("stranded", Cron("0 * * * *")),
                firing=Firing("shop.gone", "default", "default", 2, b"{}", "json"),
            ),
            0,
            NOW - 2 * HOUR,
            problem="no node fires it: does one with the role scheduler know the task 'shop.gone'?",
        ),
        ScheduleInfo(_schedule("was", Once(NOW - HOUR)), 0, None, prev_fire=NOW - HOUR, runs=1),
    ]


async def set_up(url: str) -> None:
    """Put everything in its place."""
    store = PostgresStore(url)
    try:
        await store.open()
        identity = NodeIdentity(WEB_1, "web-1", "host.example", 4711, "0.1.0", {"default": 5})
        await store.join(identity, LEASE)
        await store.save_calendar("holidays", calendar_bytes(Holidays([date(2125, 12, 25)])))
        weekend = Weekly(timezone="Europe/Berlin", base="holidays")
        await store.save_calendar("closed", calendar_bytes(weekend))
        for info in _schedules():
            assert await store.save_schedule(info, None) is not None
        await _fire(store)
        await _lead(store)
        await store.acquire_lock("import", HOLDER, "host.example:4711", LEASE)
    finally:
        await store.close()
    await _set_clock(url)


async def _fire(store: PostgresStore) -> None:
    slot = datetime(2125, 1, 15, 2, tzinfo=UTC)
    job = new_job(job_id(1), "shop.clean", "chores", {"depth": 3})
    missed = [
        PlannedSlot(slot - days * 24 * HOUR, SlotState.SKIPPED_MISFIRE, None) for days in (2, 1)
    ]
    again = new_job(job_id(2), "shop.clean", "chores", {"depth": 3})
    planned = [
        *missed,
        PlannedSlot(slot, SlotState.FIRED, job),
        PlannedSlot(slot + 7.5 * HOUR, SlotState.FIRED, again),
    ]
    assert len(await store.fire_slots("nightly", Overlap.ALLOW, planned)) == 4


async def _lead(store: PostgresStore) -> None:
    candidate = Candidate(WEB_1, "web-1")
    for role in ("maintenance", "daemon:prices"):
        assert await store.elect(candidate, [Bid(role)], LEASE)
    (leader,) = [each for each in await store.leaders() if each.role == "daemon:prices"]
    report = DaemonReport("prices", "running", "web-1", 2, "OSError: the feed hung up")
    assert await store.save_daemon(Term(leader.role, leader.term, WEB_1), report)


async def _set_clock(url: str) -> None:
    """Let everything have happened in the hours before ten o'clock."""
    now = f"timestamptz '{NOW.isoformat()}'"
    changes = {
        "schedule": f"created_at = {now} - interval '9 days', updated_at = {now} - interval '1 h',"
        " revision = length(name)",
        "slot": "fired_at = slot + interval '1.5 seconds', manual = extract(minute FROM slot) = 30",
        "leader": f"since = {now} - interval '3 hours', lease_until = {now} + interval '12 s'",
        "daemon": f"since = {now} - interval '2 hours', failed_at = {now} - interval '2 hours'",
        "lock": f"acquired_at = {now} - interval '4 minutes',"
        f" expires_at = {now} + interval '20 seconds', fence = 7",
    }
    connection = await asyncpg.connect(url)
    try:
        for table, change in changes.items():
            await connection.execute(f"UPDATE detent.detent_{table} SET {change}")
    finally:
        await connection.close()
