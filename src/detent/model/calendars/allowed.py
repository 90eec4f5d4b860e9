"""What finds the next slot that no calendar leaves out, or says that there is none."""

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime, timedelta
from typing import Final

from detent.model.calendars.calendar import Calendar
from detent.model.triggers.trigger import Trigger
from detent.model.zones import INSTANT

HORIZON: Final = timedelta(days=36_525)
"""A hundred years: nobody waits for a slot that is further away."""
CANDIDATES: Final = 5_000
"""So many slots are looked at in a row; what is left out is jumped over, so few need more."""


def stacked(names: Iterable[str], known: Mapping[str, Calendar]) -> tuple[Calendar, ...]:
    """Return the calendars of these names with all that they stand on, each once."""
    found: dict[str, Calendar] = {}
    waiting = list(names)
    while waiting:
        name = waiting.pop(0)
        if name in found:
            # Two may stand on the same one; one that stands on itself leaves out no more by it.
            continue
        if name not in known:
            listed = ", ".join(sorted(known)) or "none"
            raise ValueError(f"calendar {name!r} is unknown; known are {listed}")
        found[name] = known[name]
        base = known[name].base
        waiting += [base] if base is not None else []
    return tuple(found.values())


def next_allowed(
    trigger: Trigger, calendars: Sequence[Calendar], moment: datetime
) -> datetime | None:
    """Return the first slot strictly after a moment that no calendar leaves out.

    None means that none comes within a hundred years. A ValueError means that so many slots in
    a row were left out that the search was given up.
    """
    slot = trigger.next_after(moment)
    if not calendars or slot is None:
        return slot
    for _ in range(CANDIDATES):
        if slot is None or slot - moment > HORIZON:
            return None
        ends = [calendar.excluded_until(slot) for calendar in calendars]
        latest = max((end for end in ends if end is not None), default=None)
        if latest is None:
            return slot
        # What begins at that very moment is allowed again.
        slot = trigger.next_after(max(latest - INSTANT, slot))
    raise ValueError(
        f"calendars leave out {CANDIDATES:,} slots in a row after {moment.isoformat()} "
        f"of: {trigger.describe()}"
    )
