"""What turns a local time into an instant and back; without it, daylight saving loses slots.

Three words are used here and wherever slots are computed. A *gap* is a range of local times that a
zone leaves out when its clocks go forward, a *fold* one that it passes twice when they go back. A
*wall* time is what a clock on the wall shows: a `datetime` without a zone.

The rule of Detent for both: a wall time that was asked for by name (09:00) happens once, at the
first instant at which the clocks show it *or are already past it*; that is the end of the gap for a
time inside a gap, and the first of the two passes for a time inside a fold. A pattern (every 15
minutes) follows real time: in a gap there is nothing to match, and both passes of a fold match.

No zone has two changes of its offset within three days, and no change is longer than 24 hours; a
test reads the whole database for that. So at most one change lies near any instant.
"""

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from difflib import get_close_matches
from functools import lru_cache
from typing import Final
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError, available_timezones

SECOND: Final = timedelta(seconds=1)
INSTANT: Final = timedelta(microseconds=1)
"""The shortest step of time there is."""

NextWall = Callable[[datetime], datetime | None]
"""From a wall time to the next one that is asked for, strictly later."""


@lru_cache(maxsize=1024)
def zone_of(name: str) -> ZoneInfo:
    """Return the zone of that name, or say which names come near."""
    if not isinstance(name, str):
        raise TypeError(f"timezone={name!r}: must be a name like 'Europe/Berlin'")
    # This one is a different zone on every machine.
    if name != "localtime":
        try:
            return ZoneInfo(name)
        except (ZoneInfoNotFoundError, ValueError, OSError):
            pass
    raise ValueError(f"timezone={name!r}: unknown; {_nearest(name)}")


def _nearest(name: str) -> str:
    known = sorted(available_timezones() - {"localtime"})
    folded = {each.casefold(): each for each in known}
    wanted = name.strip().replace(" ", "_").casefold()
    near = [folded[each] for each in get_close_matches(wanted, folded, n=3, cutoff=0.6)]
    if not near and wanted:
        near = [each for each in known if each.casefold().rpartition("/")[2] == wanted][:3]
    return f"did you mean {' or '.join(near)}?" if near else "use an IANA name like 'Europe/Berlin'"


def wall_of(moment: datetime, zone: ZoneInfo) -> datetime:
    """Return what the clocks of a zone show at an instant."""
    return moment.astimezone(zone).replace(tzinfo=None, fold=0)


def instant_of(wall: datetime, zone: ZoneInfo) -> datetime:
    """Return the first instant at which the clocks show a wall time or are already past it."""
    first = wall.replace(tzinfo=zone, fold=0).astimezone(UTC)
    if wall_of(first, zone) == wall:
        return first
    # A gap: read with the offset from after it, the time lies before it, and the other way round.
    return _turn(wall.replace(tzinfo=zone, fold=1).astimezone(UTC), first, zone)


def steady_until(moment: datetime, length: timedelta, zone: ZoneInfo) -> datetime:
    """Return when the clocks have gone on by a length (of at most a day), or change before."""
    end = moment + length
    if end.astimezone(zone).utcoffset() == moment.astimezone(zone).utcoffset():
        return end
    return _turn(moment, end, zone)


def next_named(after: datetime, zone: ZoneInfo, next_wall: NextWall) -> datetime | None:
    """Return the next instant for wall times that are asked for by name: each happens once."""
    here = after.astimezone(zone)
    wall = here.replace(tzinfo=None, fold=0)
    if here.fold:
        # The second pass of a fold: all that the clocks show now was shown, and done, before.
        turn = _turn(here.replace(fold=0).astimezone(UTC), after, zone)
        wall = wall_of(turn - SECOND, zone)
    found = next_wall(wall)
    return None if found is None else instant_of(found, zone)


def next_passing(after: datetime, zone: ZoneInfo, next_wall: NextWall) -> datetime | None:
    """Return the next instant at which the clocks show one of the wall times, as often as they do.

    The wall times are whole seconds.
    """
    start, begin = after, after + INSTANT
    while True:
        here = start.astimezone(zone)
        wall = here.replace(tzinfo=None, fold=0)
        # At the edge of a change the edge itself counts.
        found = next_wall(wall - SECOND if begin == start else wall)
        turn = _end_of_first_pass(here)
        if turn is not None and (found is None or start + (found - wall) >= turn):
            start = begin = turn
            continue
        if found is None:
            return None
        for fold in (0, 1):
            instant = found.replace(tzinfo=zone, fold=fold).astimezone(UTC)
            if instant >= begin and wall_of(instant, zone) == found:
                return instant
        start = begin = instant_of(found, zone)


def _end_of_first_pass(here: datetime) -> datetime | None:
    """Return when the clocks go back, if they will show this very time once more."""
    if here.fold:
        return None
    again = here.replace(fold=1)
    if here.utcoffset() == again.utcoffset():
        return None
    zone = here.tzinfo
    assert isinstance(zone, ZoneInfo)
    return _turn(here.astimezone(UTC), again.astimezone(UTC), zone)


def _turn(before: datetime, after: datetime, zone: ZoneInfo) -> datetime:
    """Return the instant between the two at which the zone changes its offset."""
    low = int(before.timestamp()) - 1
    high = int(after.timestamp()) + 1
    old = datetime.fromtimestamp(low, zone).utcoffset()
    while high - low > 1:
        middle = (low + high) // 2
        if datetime.fromtimestamp(middle, zone).utcoffset() == old:
            low = middle
        else:
            high = middle
    return datetime.fromtimestamp(high, UTC)
