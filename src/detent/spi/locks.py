"""What a store promises about locks: one holder at a time, and a fence that only grows."""

from datetime import datetime, timedelta
from typing import NamedTuple, Protocol
from uuid import UUID

from detent.spi.leadership import Term


class LockAnswer(NamedTuple):
    """What came of asking for a lock."""

    fence: int | None
    """None when somebody else holds it."""
    free_in: float = 0.0
    """Seconds until the time of the present holder is over, unless he renews it."""


class LockInfo(NamedTuple):
    """A lock that is held."""

    name: str
    fence: int
    holder: UUID
    owner: str
    """Who that is, for people."""
    acquired_at: datetime
    expires_at: datetime


class LockStore(Protocol):
    """Gives locks, each for a time. A holder is an id that is used for one acquisition only."""

    async def acquire_lock(self, name: str, holder: UUID, owner: str, ttl: timedelta) -> LockAnswer:
        """Take a lock that is free, or whose time is over, until `ttl` from the store's now.

        Its fence is greater than all that were given for this name before, also after releases.
        Who holds it already gets the same fence again, with a new time.
        """

    async def renew_lock(self, name: str, holder: UUID, ttl: timedelta) -> bool:
        """Give a lock more time; return whether it is still this holder's.

        It is until somebody else has taken it, or it was released.
        """

    async def release_lock(self, name: str, holder: UUID) -> bool:
        """Give a lock back; return whether it was still this holder's."""

    async def force_release(self, name: str) -> LockInfo | None:
        """Take a lock from whoever holds it; return what it was, or None if it was free."""

    async def locks(self) -> list[LockInfo]:
        """Return the locks that are held, by name."""

    async def forget_locks(self, term: Term, expired_for: timedelta, limit: int) -> int:
        """Remove up to `limit` locks whose time has been over for that long; return how many.

        Nothing under an old term. Fences go on growing, whatever is removed.
        """
