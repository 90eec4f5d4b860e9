"""Gives locks, each for a time."""

from collections.abc import Sequence
from datetime import timedelta
from typing import Any
from uuid import UUID

from detent.spi.leadership import Term
from detent.spi.locks import LockAnswer, LockInfo
from detent.stores.sqlite.columns import MICROSECONDS, moment, span, uuid
from detent.stores.sqlite.database import Database
from detent.stores.sqlite.session import Session
from detent.stores.sqlite.statements import sql


class Locking:
    """The part of the store that `LockStore` describes."""

    database: Database

    async def acquire_lock(self, name: str, holder: UUID, owner: str, ttl: timedelta) -> LockAnswer:
        """See `LockStore.acquire_lock`."""

        def somebody_else(session: Session) -> LockAnswer | None:
            held = session.table(sql("acquire_lock", "held"), name)
            if held and uuid(held[0][0]) != holder and held[0][2] > session.now:
                return LockAnswer(None, (held[0][2] - session.now) / MICROSECONDS)
            return None

        def work(session: Session) -> LockAnswer:
            answer = somebody_else(session)
            if answer is not None:
                return answer
            until = session.now + span(ttl)
            if session.change(sql("renew_lock"), name, holder.bytes, until):
                return LockAnswer(session.table(sql("acquire_lock", "held"), name)[0][1])
            session.change(sql("acquire_lock", "fence"))
            taken = (name, holder.bytes, owner, session.now, until)
            session.change(sql("acquire_lock", "taken"), *taken)
            return LockAnswer(session.value(sql("acquire_lock", "number")))

        return await self.database.write(work, first=somebody_else)

    async def renew_lock(self, name: str, holder: UUID, ttl: timedelta) -> bool:
        """See `LockStore.renew_lock`."""
        changed = await self.database.write(
            lambda session: session.change(
                sql("renew_lock"), name, holder.bytes, session.now + span(ttl)
            ),
            urgent=True,
        )
        return bool(changed)

    async def release_lock(self, name: str, holder: UUID) -> bool:
        """See `LockStore.release_lock`."""
        changed = await self.database.write(
            lambda session: session.change(sql("release_lock"), name, holder.bytes)
        )
        return bool(changed)

    async def force_release(self, name: str) -> LockInfo | None:
        """See `LockStore.force_release`."""

        def work(session: Session) -> LockInfo | None:
            held = session.table(sql("force_release", "held"), name)
            session.change(sql("force_release", "gone"), name)
            if not held or held[0][5] <= session.now:
                return None
            return _lock_info(uuid(held[0][2]), held[0])

        return await self.database.write(work)

    async def locks(self) -> list[LockInfo]:
        """See `LockStore.locks`."""
        rows = await self.database.read(
            lambda session: session.rows(sql("list_locks"), session.now)
        )
        return [_lock_info(UUID(bytes=row[2]), row) for row in rows]

    async def forget_locks(self, term: Term, expired_for: timedelta, limit: int) -> int:
        """See `LockStore.forget_locks`."""
        mine = (term.role, term.number, term.holder.bytes)
        return await self.database.write(
            lambda session: session.change(
                sql("forget_locks"), *mine, session.now - span(expired_for), limit
            )
        )


def _lock_info(holder: UUID, row: Sequence[Any]) -> LockInfo:
    name, fence, _, owner, acquired_at, expires_at = row
    return LockInfo(name, fence, holder, owner, moment(acquired_at), moment(expires_at))
