"""Gives locks, each for a time."""

import hashlib
from datetime import timedelta
from uuid import UUID

from detent.spi.leadership import Term
from detent.spi.locks import LockAnswer, LockInfo
from detent.stores.postgres.database import Database


class Locking:
    """The part of the store that `LockStore` describes."""

    database: Database

    async def acquire_lock(self, name: str, holder: UUID, owner: str, ttl: timedelta) -> LockAnswer:
        """See `LockStore.acquire_lock`."""
        turn = _key_of(self.database.address.schema, name)
        rows = await self.database.fetch(
            "acquire_lock", name, holder, owner, ttl.total_seconds(), turn
        )
        fence, free_in = rows[0]
        return LockAnswer(fence, 0.0 if fence is not None else free_in)

    async def renew_lock(self, name: str, holder: UUID, ttl: timedelta) -> bool:
        """See `LockStore.renew_lock`."""
        return bool(await self.database.fetch("renew_lock", name, holder, ttl.total_seconds()))

    async def release_lock(self, name: str, holder: UUID) -> bool:
        """See `LockStore.release_lock`."""
        return bool(await self.database.fetch("release_lock", name, holder))

    async def force_release(self, name: str) -> LockInfo | None:
        """See `LockStore.force_release`."""
        rows = await self.database.fetch("force_release", name)
        return LockInfo(*tuple(rows[0])[:6]) if rows and rows[0]["held"] else None

    async def locks(self) -> list[LockInfo]:
        """See `LockStore.locks`."""
        return [LockInfo._make(row) for row in await self.database.fetch("list_locks")]

    async def forget_locks(self, term: Term, expired_for: timedelta, limit: int) -> int:
        """See `LockStore.forget_locks`."""
        rows = await self.database.fetch(
            "forget_locks", term.role, term.number, term.holder, expired_for.total_seconds(), limit
        )
        return len(rows)


def _key_of(schema: str, name: str) -> int:
    """Return the number under which those who want a lock take turns."""
    digest = hashlib.blake2b(f"detent lock {schema} {name}".encode(), digest_size=8).digest()
    return int.from_bytes(digest, "big", signed=True)
