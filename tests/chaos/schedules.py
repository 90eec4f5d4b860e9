"""Schedules that fire every second through all of it: each slot must have got one job."""

import asyncio
from collections import Counter
from datetime import timedelta
from typing import Any, Final

import msgspec

from detent import App
from detent.errors import StoreError
from detent.firings import firing_of
from detent.model.schedule import Misfire, Schedule, ScheduleInfo
from detent.model.triggers import Interval, trigger_bytes
from tests.chaos.tasks import chaos

SCHEDULES: Final = 5
GROUP: Final = "chaos"
SECOND: Final = timedelta(seconds=1)
JOBS: Final = """
    SELECT job.options FROM detent.detent_job AS job
    WHERE position('"schedule"'::bytea IN job.options) > 0
"""
SLOTS: Final = "SELECT schedule, slot, state, job FROM detent.detent_slot ORDER BY schedule, slot"
FIRST: Final = "SELECT name, next_fire FROM detent.detent_schedule ORDER BY name"


class Timetable:
    """Makes the schedules, stops them when the faults are over, and counts."""

    def __init__(self, url: str) -> None:
        self._app = App(url)
        self._task = self._app.task(name="chaos")(chaos.function)
        self._first: dict[str, Any] = {}
        self.slots = 0

    async def begin(self) -> None:
        """Let them fire from the next second on."""
        store = self._app.store
        now = (await store.due_schedules([], 0)).now.replace(microsecond=0)
        firing = firing_of(self._app.client.prepare(self._task.bind(0.1)).job)
        for number in range(SCHEDULES):
            schedule = Schedule(
                name=f"chaos-{number}",
                trigger=trigger_bytes(Interval(SECOND)),
                firing=firing,
                group=GROUP,
                misfire=Misfire.CATCH_UP,
                catch_up_limit=10_000,
                misfire_threshold=SECOND,
            )
            info = await store.save_schedule(ScheduleInfo(schedule, 0, now + SECOND), None)
            assert info is not None
            self._first[schedule.name] = info.next_fire

    async def rest(self) -> None:
        """Let them fire no more."""
        while True:
            try:
                await self._app.store.pause_schedules(group=GROUP)
            except StoreError:
                await asyncio.sleep(0.2)
            else:
                await self._app.close()
                return

    async def judge(self, connection: Any) -> list[object]:
        """Return the slots that have no job, two, or one that was not stored with them."""
        rows = await connection.fetch(SLOTS)
        self.slots = len(rows)
        written = {(row["schedule"], row["slot"]): row for row in rows}
        found: list[object] = [key for key, row in written.items() if row["job"] is None]
        if len({row["schedule"] for row in rows}) < SCHEDULES:
            found.append("a schedule that never fired")
        for row in await connection.fetch(FIRST):
            slot = self._first[row["name"]]
            while slot < row["next_fire"]:
                if (row["name"], slot) not in written:
                    found.append((row["name"], slot))
                slot += SECOND
        options = [msgspec.json.decode(row["options"]) for row in await connection.fetch(JOBS)]
        counts = Counter((each["schedule"], each["slot"]) for each in options)
        found += [slot for slot, count in counts.items() if count != 1]
        if len(counts) != len(written):
            found.append(f"{len(counts)} jobs for {len(written)} slots")
        return found
