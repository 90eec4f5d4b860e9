"""Giving locks, with the meaning that every other store must have."""

from datetime import datetime, timedelta
from uuid import UUID

from detent.spi.leadership import Term
from detent.spi.locks import LockAnswer, LockInfo
from detent.stores.memory.leadership import is_valid
from detent.stores.memory.tables import Lock, Tables


def acquire_lock(
    tables: Tables, now: datetime, name: str, holder: UUID, owner: str, ttl: timedelta
) -> LockAnswer:
    """Take a lock that is free or over."""
    row = tables.locks.get(name)
    if row is not None and row.holder == holder:
        tables.locks[name] = row._replace(expires_at=now + ttl)
        return LockAnswer(row.fence)
    if row is not None and row.expires_at > now:
        return LockAnswer(None, (row.expires_at - now).total_seconds())
    # One counter for all names: so a name can be forgotten, and its fences still only grow.
    tables.lock_fence += 1
    tables.locks[name] = Lock(name, tables.lock_fence, holder, owner, now, now + ttl)
    return LockAnswer(tables.lock_fence)


def renew_lock(tables: Tables, now: datetime, name: str, holder: UUID, ttl: timedelta) -> bool:
    """Give a lock more time."""
    row = tables.locks.get(name)
    if row is None or row.holder != holder:
        return False
    tables.locks[name] = row._replace(expires_at=now + ttl)
    return True


def release_lock(tables: Tables, now: datetime, name: str, holder: UUID) -> bool:
    """Give a lock back."""
    row = tables.locks.get(name)
    if row is None or row.holder != holder:
        return False
    del tables.locks[name]
    return True


def force_release(tables: Tables, now: datetime, name: str) -> LockInfo | None:
    """Take a lock from whoever holds it."""
    row = tables.locks.pop(name, None)
    return None if row is None or row.expires_at <= now else LockInfo(*row)


def locks(tables: Tables, now: datetime) -> list[LockInfo]:
    """Return the locks that are held, by name."""
    return [LockInfo(*row) for row in sorted(tables.locks.values()) if row.expires_at > now]


def forget_locks(
    tables: Tables, now: datetime, term: Term, expired_for: timedelta, limit: int
) -> int:
    """Remove locks that were over long ago."""
    if not is_valid(tables, term):
        return 0
    old = [row.name for row in sorted(tables.locks.values()) if row.expires_at <= now - expired_for]
    for name in old[:limit]:
        del tables.locks[name]
    return min(len(old), limit)
