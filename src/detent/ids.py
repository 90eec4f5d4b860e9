"""UUIDv7 job ids (RFC 9562): made by the client, so that a repeated enqueue inserts nothing twice.

48 bits of Unix milliseconds, a 12-bit counter within the millisecond, and 62 random bits. Ids
of one process sort in the order in which they were made while its clock moves forward. An id is
never ahead of the wall clock: when 4096 have been made in one millisecond the next waits for the
tick, and after a clock that stepped back ids simply follow the clock again (the random bits keep
them apart).
"""

import os
import secrets
import threading
import time
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Final
from uuid import UUID, SafeUUID

COUNTER_BITS: Final = 12
COUNTER_LIMIT: Final = 1 << COUNTER_BITS
_RANDOM_BITS: Final = 62
_RANDOM_MASK: Final = (1 << _RANDOM_BITS) - 1
_VERSION: Final = 0x7 << 76
_VARIANT: Final = 0b10 << 62
_BLOCK: Final = 4096
_new: Final = object.__new__
_set: Final = object.__setattr__
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)


class IdMaker:
    """Makes ids; safe to share between threads, and after a fork."""

    def __init__(
        self,
        *,
        milliseconds: Callable[[], int] = lambda: time.time_ns() // 1_000_000,
        random_bytes: Callable[[int], bytes] = secrets.token_bytes,
        wait_for_tick: Callable[[], None] = lambda: time.sleep(0.0001),
    ) -> None:
        self._milliseconds = milliseconds
        self._random_bytes = random_bytes
        self._wait_for_tick = wait_for_tick
        self._lock = threading.Lock()
        self._last = -1
        self._counter = 0
        self._block = b""
        self._offset = 0
        # A child must not repeat its parent's random bytes, nor inherit a lock that is held.
        os.register_at_fork(after_in_child=self._forget)

    def new(self) -> UUID:
        """Return a new id."""
        with self._lock:
            now = self._milliseconds()
            if now != self._last:
                self._last, self._counter = now, 0
            elif self._counter < COUNTER_LIMIT - 1:
                self._counter += 1
            else:
                now = self._next_tick()
            # The operating system is asked for a block of random bytes at a time.
            start = self._offset
            if start >= len(self._block):
                self._block, start = self._random_bytes(_BLOCK), 0
            self._offset = start + 8
            random = int.from_bytes(self._block[start : start + 8], "big") & _RANDOM_MASK
            value = now << 80 | _VERSION | self._counter << 64 | _VARIANT | random
        # As UUID(int=value) does it, without asking again what is known: ids are made by the
        # thousand, and this halves their cost.
        made = _new(UUID)
        _set(made, "int", value)
        _set(made, "is_safe", SafeUUID.unknown)
        return made

    def _next_tick(self) -> int:
        """Wait for another millisecond and return it."""
        while (now := self._milliseconds()) == self._last:
            self._wait_for_tick()
        self._last, self._counter = now, 0
        return now

    def _forget(self) -> None:
        self._lock = threading.Lock()
        self._block, self._offset = b"", 0


def timestamp_of(job_id: UUID) -> datetime:
    """Return when an id was made, to the millisecond."""
    if job_id.version != 7:
        raise ValueError(f"{job_id} is not a UUIDv7")
    return _EPOCH + timedelta(milliseconds=job_id.int >> 80)


def range(start: datetime, end: datetime) -> tuple[UUID, UUID]:  # noqa: A001  ids.range(a, b)
    """Return the lowest and highest id that can have been made from `start` to `end`.

    Both ends are included, so `low <= id <= high` selects exactly the ids of that time.
    """
    if end < start:
        raise ValueError(f"the range ends at {end}, before its start at {start}")
    low = _milliseconds_of(start) << 80 | _VERSION | _VARIANT
    high = _milliseconds_of(end) << 80 | _VERSION | (COUNTER_LIMIT - 1) << 64
    return UUID(int=low), UUID(int=high | _VARIANT | _RANDOM_MASK)


def _milliseconds_of(moment: datetime) -> int:
    if moment.tzinfo is None:
        raise ValueError(f"{moment} has no time zone")
    return (moment - _EPOCH) // timedelta(milliseconds=1)
