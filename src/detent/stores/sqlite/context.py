"""Serves running jobs: signals to them, and their side writes, each fenced by its claim."""

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import Any
from uuid import UUID

from detent.errors import ClaimLost
from detent.model.job import Claim, Hook, LogLine, Progress, Signal
from detent.spi.notifier import Hint, Notifier
from detent.spi.store import PendingCompletion
from detent.stores.sqlite.columns import packed, written
from detent.stores.sqlite.database import Database
from detent.stores.sqlite.finish import Settling
from detent.stores.sqlite.session import Session
from detent.stores.sqlite.statements import sql
from detent.stores.sqlite.transaction import SqliteConnection


class Contexts:
    """The part of the store that `ContextStore` describes."""

    database: Database
    notifier: Notifier

    async def signals_for(self, node: UUID) -> list[Signal]:
        """See `ContextStore.signals_for`."""
        rows = await self.database.read(
            lambda session: session.rows(sql("signals_for"), node.bytes)
        )
        return [Signal(UUID(bytes=job_id), *rest) for job_id, *rest in rows]

    async def save_progress(self, node: UUID, progress: Sequence[Progress]) -> None:
        """See `ContextStore.save_progress`."""
        latest = {entry.id: entry for entry in progress}
        if not latest:
            return
        ids = packed(latest)
        rows = written([(said.fence, said.fraction, said.message) for said in latest.values()])
        await self.database.write(
            lambda session: session.change(sql("save_progress"), node.bytes, ids, rows, session.now)
        )

    async def append_log(self, node: UUID, lines: Sequence[LogLine]) -> None:
        """See `ContextStore.append_log`."""
        if not lines:
            return
        ids = packed(line.id for line in lines)
        rows = written([(line.fence, line.attempt, line.level, line.message) for line in lines])
        await self.database.write(
            lambda session: session.change(sql("append_log"), node.bytes, ids, rows, session.now)
        )

    @asynccontextmanager
    async def transaction(
        self, node: UUID, claim: Claim, completion: PendingCompletion
    ) -> AsyncIterator[SqliteConnection]:
        """See `ContextStore.transaction`. It is the file's one write transaction while it lasts."""

        def enter(session: Session) -> None:
            if not session.value(sql("lock_claim"), node.bytes, claim.id.bytes, claim.fence):
                raise ClaimLost(claim.id)

        def commit(session: Session) -> list[Any]:
            settling = Settling(node, [completion.success_of(claim)])
            settled, woken = settling.write_hooked(session)
            if not settled:
                raise ClaimLost(claim.id)
            session.connection.execute("COMMIT")
            return woken

        visit = await self.database.visit(enter)
        try:
            yield SqliteConnection(visit, self.database)
        except BaseException:
            visit.abandon()
            raise
        woken = await self.database.ask(visit, commit, last=True)
        self.notifier.publish([Hint(row[0]) for row in woken])
        if claim.hooks & Hook.LIMIT:
            self.notifier.publish([Hint(claim.lane)])
