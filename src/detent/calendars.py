"""The times that schedules leave out: calendars, and what people do with those that are stored."""

from dataclasses import replace
from typing import Final

from detent.config.readers import check_label
from detent.errors import CalendarNotFound, ConfigError, Conflict
from detent.model.access import Action, Target
from detent.model.calendars import (
    Annual,
    Calendar,
    CronCalendar,
    DailyRange,
    Holidays,
    Weekly,
    calendar_bytes,
    calendar_from,
    stacked,
)
from detent.model.ownership import is_spent
from detent.model.schedule import ScheduleInfo
from detent.protection import Protection
from detent.slots import UNREADABLE, calendars_in, readable, slots_with
from detent.spi.notifier import Notifier, ScheduleHint
from detent.spi.schedules import ScheduleStore

__all__ = [
    "Annual",
    "Calendar",
    "Calendars",
    "CronCalendar",
    "DailyRange",
    "Holidays",
    "Weekly",
]

PAGE: Final = 500
TRIES: Final = 20


class Calendars:
    """All calendars of a store."""

    def __init__(
        self,
        store: ScheduleStore,
        notifier: Notifier | None = None,
        protection: Protection | None = None,
    ) -> None:
        self._store = store
        self._notifier = notifier
        self._protection = protection or Protection()

    async def list(self) -> dict[str, Calendar]:
        """Return all calendars by name, but for those that only a newer version can read."""
        found = readable(await calendars_in(self._store))
        return {name: found[name] for name in sorted(found)}

    async def get(self, name: str) -> Calendar:
        """Return a calendar, or raise `CalendarNotFound`."""
        found = await self._store.get_calendars([check_label("calendar", name)])
        if name not in found:
            raise CalendarNotFound(name)
        try:
            return calendar_from(found[name])
        except UNREADABLE as error:
            raise ConfigError(f"calendar {name!r} cannot be read: {error}") from error

    async def save(self, name: str, calendar: Calendar) -> None:
        """Keep a calendar under a name, in place of one that was there.

        The schedules that leave its times out go by it from now on: a next slot that it leaves
        out moves. Slots that are due already stay.
        """
        check_label("calendar", name)
        if not isinstance(calendar, Calendar) or isinstance(calendar, type):
            raise ConfigError(
                f"calendar {name!r}: {calendar!r}: must be a calendar of detent.calendars"
            )
        await self._permit(name)
        known = {**readable(await calendars_in(self._store)), name: calendar}
        try:
            if calendar.base is not None and calendar in stacked([calendar.base], known):
                raise ValueError("stands on this one itself")
            stacked([name], known)
        except ValueError as error:
            raise ConfigError(f"calendar {name!r}: base = {calendar.base!r}: {error}") from error
        await self._store.save_calendar(name, calendar_bytes(calendar))
        await self._move_slots()

    async def delete(self, name: str) -> None:
        """Remove a calendar; a `Conflict` names the schedules and calendars that need it."""
        await self._permit(check_label("calendar", name))
        known = await calendars_in(self._store)
        if name not in known:
            raise CalendarNotFound(name)
        others = sorted(readable(known).items())
        above = [other for other, calendar in others if calendar.base == name]
        if above:
            raise _in_use(name, "base of the calendars", above)
        users = await self._store.delete_calendar(name)
        if users:
            raise _in_use(name, "used by the schedules", users)

    async def _permit(self, name: str) -> None:
        await self._protection.permit(Action.CONFIGURE, Target(kind="calendar", name=name))

    async def _move_slots(self) -> None:
        """Find the next slot of each schedule with calendars anew."""
        after, moved = None, False
        while page := await self._store.list_schedules(after=after, limit=PAGE):
            for info in page:
                moved = await self._move_slot(info) or moved
            after = page[-1].schedule.name
        if moved and self._notifier is not None:
            self._notifier.publish([ScheduleHint()])

    async def _move_slot(self, info: ScheduleInfo | None) -> bool:
        for _ in range(TRIES):
            if info is None or not info.schedule.calendars:
                return False
            now = (await self._store.due_schedules([], 0)).now
            if is_spent(info) or (info.next_fire is not None and info.next_fire <= now):
                return False
            try:
                slots = await slots_with(self._store, info.schedule)
                after = max(now, info.prev_fire or now)
                wanted = replace(info, next_fire=slots(info.schedule, after), problem=None)
            except ConfigError as error:
                wanted = replace(info, next_fire=None, problem=str(error))
            if wanted == info:
                return False
            if await self._store.save_schedule(wanted, info.revision) is not None:
                return True
            found = await self._store.get_schedules([info.schedule.name])
            info = found[0] if found else None
        return False


def _in_use(name: str, how: str, users: "list[str]") -> Conflict:
    return Conflict(None, "delete", f"{how} {', '.join(users)}", subject=f"calendar {name!r}")
