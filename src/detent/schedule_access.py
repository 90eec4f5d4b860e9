"""Looks at schedules for those who may: their rule is asked, and what is secret stays hidden."""

import asyncio
from collections.abc import Sequence
from datetime import datetime

from detent.config.readers import check_label
from detent.errors import ConfigError, ScheduleNotFound
from detent.firing_seal import FiringSeal
from detent.jobs import MAX_LIMIT
from detent.model.access import Action, Target
from detent.model.moments import check_moment
from detent.model.schedule import Schedule, ScheduleInfo, SlotInfo
from detent.principal import current_principal
from detent.protection import Protection
from detent.slots import MOST_SLOTS, check_count, coming, slots_with
from detent.spi.schedules import ScheduleStore


def target_of(schedule: Schedule) -> Target:
    """Return a schedule as a target: with the task that it fires, and in whose name."""
    firing = schedule.firing
    return Target(
        firing.task,
        firing.queue,
        tags=firing.tags,
        owner=firing.principal,
        kind="schedule",
        name=schedule.name,
    )


def job_target(schedule: Schedule) -> Target:
    """Return a job that somebody fires by hand as a target."""
    firing = schedule.firing
    return Target(
        firing.task, firing.queue, tags=firing.tags, owner=firing.principal, name=schedule.name
    )


def group_target(group: str) -> Target:
    """Return all schedules of a group as a target."""
    return Target(kind="schedule group", name=group)


class ScheduleViews:
    """Schedules as they may be seen."""

    def __init__(self, store: ScheduleStore, protection: Protection, seal: FiringSeal) -> None:
        self._store = store
        self._protection = protection
        self._seal = seal

    async def get(self, name: str) -> ScheduleInfo:
        """Return a schedule and where it stands, or raise `ScheduleNotFound`."""
        return await self._seal.shown(await self._stored(name, Action.READ))

    async def list(
        self, *, group: str | None = None, after: str | None = None, limit: int = 100
    ) -> list[ScheduleInfo]:
        """Return schedules by name: up to `limit` that come after the name `after`."""
        check_count("limit", limit, MAX_LIMIT)
        if group is not None:
            check_label("group", group)
        if after is not None:
            check_label("schedule", after)
        page = await self._store.list_schedules(group=group, after=after, limit=limit)
        found = [*await self._readable(page)]
        # Those that may not be read are left out, and a page is short only when it is the last.
        while len(found) < limit and len(page) == limit:
            last = page[-1].schedule.name
            page = await self._store.list_schedules(group=group, after=last, limit=limit)
            found += await self._readable(page)
        # All at once, so that a provider of keys is waited for once.
        return await asyncio.gather(*map(self._seal.shown, found[:limit]))

    async def next(self, name: str, count: int = 1) -> Sequence[datetime]:
        """Return the next slots of a schedule, fewer if it has no more; pauses do not count."""
        check_count("count", count, MOST_SLOTS)
        info = await self._stored(name, Action.READ)
        slots = await slots_with(self._store, info.schedule)
        return coming(info, slots, count)

    async def history(
        self, name: str, *, before: datetime | None = None, limit: int = 50
    ) -> Sequence[SlotInfo]:
        """Return what became of the slots of a schedule, the latest first.

        It outlives the schedule; a name that was never used has none.
        """
        check_count("limit", limit, MAX_LIMIT)
        if before is not None:
            try:
                check_moment(before)
            except (TypeError, ValueError) as error:
                raise ConfigError(f"before = {before!r}: {error}") from error
        there = await self._store.get_schedules([check_label("schedule", name)])
        gone = Target(kind="schedule", name=name)
        target = target_of(there[0].schedule) if there else gone
        await self._protection.permit(Action.READ, target)
        found = await self._store.slots_of(name, before=before, limit=limit)
        if not found and not there and before is None:
            raise ScheduleNotFound(name)
        return found

    async def _stored(self, name: str, action: Action) -> ScheduleInfo:
        """Return a schedule as it is stored, for something that has to be allowed."""
        found = await self._store.get_schedules([check_label("schedule", name)])
        if not found:
            raise ScheduleNotFound(name)
        await self._protection.permit(action, target_of(found[0].schedule))
        return found[0]

    async def _readable(self, page: Sequence[ScheduleInfo]) -> Sequence[ScheduleInfo]:
        access = self._protection.access
        if access is None:
            return page
        principal = current_principal()
        return [
            info
            for info in page
            if await access.allows(principal, Action.READ, target_of(info.schedule))
        ]
