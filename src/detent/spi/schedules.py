"""What a store promises about schedules: each slot is written once, with its job, or not at all."""

from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Final, NamedTuple, Protocol

from detent.model.schedule import FiredSlot, FirePlan, Overlap, PlannedSlot, ScheduleInfo, SlotInfo
from detent.spi.leadership import Term

HOLD: Final = timedelta(seconds=30)
"""How long a schedule that could not be fired is left alone before the next try."""


class DueSchedules(NamedTuple):
    """Schedules whose next slot has come, by the store's clock."""

    now: datetime
    """The store's now; also when nothing is due, or nothing was asked for."""
    due: Sequence[ScheduleInfo]


class ScheduleStore(Protocol):
    """Keeps schedules, their slots and the calendars they leave out."""

    async def save_schedule(self, info: ScheduleInfo, expected: int | None) -> ScheduleInfo | None:
        """Write a schedule as it is given, if its revision is still `expected`.

        None as `expected` means that there must be none of that name. Returns it with its new
        revision, or None when somebody else was faster: nothing is written then. `created_at` and
        `updated_at` are the store's to set, and a schedule that is new in a paused group is
        paused with it. Revisions are never used twice, also not by another schedule of that name.
        """

    async def get_schedules(self, names: Sequence[str]) -> list[ScheduleInfo]:
        """Return the known schedules among `names`, by name."""

    async def list_schedules(
        self, *, group: str | None = None, after: str | None = None, limit: int = 100
    ) -> list[ScheduleInfo]:
        """Return schedules by name, those that come after the name `after`."""

    async def delete_schedule(
        self, name: str, expected: int | None = None, term: Term | None = None
    ) -> bool:
        """Remove a schedule (its slots stay as history); return whether there was one.

        Under a `term` that is over, nothing is removed.
        """

    async def pause_schedules(self, *, name: str | None = None, group: str | None = None) -> int:
        """Let a schedule, or all of a group now and later, fire no more; return how many.

        Exactly one of `name` and `group` is given. Those that are paused already do not count.
        """

    async def resume_schedules(self, *, name: str | None = None, group: str | None = None) -> int:
        """Let them fire again. What was missed meanwhile follows their misfire rule.

        A schedule can be resumed alone while the rest of its group stays paused; a group is
        resumed with all in it.
        """

    async def due_schedules(self, tasks: Sequence[str], limit: int) -> DueSchedules:
        """Return schedules of these tasks that are due, by next slot, then priority. No locks.

        Paused ones are left out, and for a while (`HOLD`) those that a plan found a problem with.
        """

    async def next_fire(self, tasks: Sequence[str]) -> float | None:
        """Return the seconds until the first of these is due, 0 if one is, None without any."""

    async def stranded_schedules(
        self, tasks: Sequence[str], late: timedelta, limit: int
    ) -> list[ScheduleInfo]:
        """Return schedules of other tasks than these that are due since `late`, and not flagged."""

    async def fire(self, plans: Sequence[FirePlan]) -> list[FiredSlot]:
        """Write slots, jobs and next slots in one transaction; skip what another has done.

        A plan counts only if its schedule still has the plan's revision and is neither paused nor
        locked by somebody else. A slot that exists is not written again and its job not stored.
        Overlap is decided here, against the jobs of other slots that still live and carry
        `Hook.SLOT`: only the end of those can be waited for. A plan with a problem and no slots
        flags its schedule and leaves it alone for a while; any other takes the flag away.

        `runs` grows by the slots that were to get a job, also if an earlier job stood in the way.
        """

    async def fire_slots(
        self, name: str, overlap: Overlap, slots: Sequence[PlannedSlot]
    ) -> list[FiredSlot]:
        """Write slots by hand (`trigger_now`, `backfill`); the schedule's next slot stays.

        A slot that has a job stays as it is; one that was left out gets its job now.
        Returns nothing for a schedule that is not there; a paused one can be fired by hand.
        """

    async def slots_of(
        self, name: str, *, before: datetime | None = None, limit: int = 50
    ) -> list[SlotInfo]:
        """Return the slots of a schedule, the latest first."""

    async def live_jobs_of(self, name: str) -> list[SlotInfo]:
        """Return the slots whose jobs have not ended, in the order in which they were fired."""

    async def prune_slots(self, keep: timedelta, limit: int, term: Term | None = None) -> int:
        """Delete slots written longer ago than that whose job is gone or ended; return how many.

        Under a `term` that is over, nothing goes.
        """

    async def save_calendar(self, name: str, data: bytes) -> None:
        """Keep a calendar under its name, in place of one that was there."""

    async def get_calendars(self, names: Sequence[str] | None = None) -> dict[str, bytes]:
        """Return the known calendars among `names`, or all."""

    async def delete_calendar(self, name: str) -> list[str]:
        """Remove a calendar; return the schedules that use it (some), in which case it stays."""
