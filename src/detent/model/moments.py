"""The due times that every store can hold.

At the ends of the calendar, a moment may lie in a year that there is not when it is seen from
another zone; and the driver of PostgreSQL takes the first moment and the last for infinities, with
which no database computes.
"""

from datetime import MAXYEAR, MINYEAR, datetime, timedelta
from typing import Final

YEARS: Final = range(MINYEAR + 1, MAXYEAR)
MAX_AHEAD: Final = timedelta(days=3_650)


def check_moment(moment: object) -> None:
    """Refuse what is no moment, or one that not everybody understands alike."""
    if not isinstance(moment, datetime):
        raise TypeError("must be a datetime")
    if moment.tzinfo is None:
        raise ValueError("must have a time zone")
    if moment.year not in YEARS:
        raise ValueError(f"must be in the years {YEARS[0]} to {YEARS[-1]}")


def check_delay(delay: object) -> None:
    """Refuse what is no length of time, or one that leads out of everybody's sight."""
    if not isinstance(delay, timedelta):
        raise TypeError("must be a timedelta")
    if not timedelta(0) <= delay <= MAX_AHEAD:
        raise ValueError(f"must be 0 to {MAX_AHEAD.days} days")
