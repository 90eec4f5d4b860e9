"""Serves running jobs: signals to them, and their side writes, each fenced by its claim."""

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import Any
from uuid import UUID

from detent.errors import ClaimLost
from detent.model.job import Claim, Hook, LogLine, Progress, Settlement, Signal
from detent.model.state import State
from detent.spi.notifier import Hint, Notifier
from detent.spi.store import PendingCompletion
from detent.stores.postgres.database import Database
from detent.stores.postgres.failures import DRIVER_ERRORS, translate
from detent.stores.postgres.finish import settle_hooked
from detent.stores.postgres.outbox import hints_for


class Contexts:
    """The part of the store that `ContextStore` describes."""

    database: Database
    notifier: Notifier

    async def signals_for(self, node: UUID) -> list[Signal]:
        """See `ContextStore.signals_for`."""
        return [Signal._make(row) for row in await self.database.fetch("signals_for", node)]

    async def save_progress(self, node: UUID, progress: Sequence[Progress]) -> None:
        """See `ContextStore.save_progress`."""
        if not progress:
            return
        latest = {entry.id: entry for entry in progress}
        rows = sorted(latest.values(), key=lambda entry: entry.id)
        await self.database.fetch("save_progress", node, *zip(*rows, strict=True))

    async def append_log(self, node: UUID, lines: Sequence[LogLine]) -> None:
        """See `ContextStore.append_log`."""
        if not lines:
            return
        await self.database.fetch("append_log", node, *zip(*lines, strict=True))

    @asynccontextmanager
    async def transaction(
        self, node: UUID, claim: Claim, completion: PendingCompletion
    ) -> AsyncIterator[Any]:
        """See `ContextStore.transaction`."""
        woken: list[Any] = []
        settled: list[Any] = []
        async with self.database.connection() as connection:
            transaction = connection.transaction()
            try:
                await transaction.start()
                held = await connection.fetch(
                    self.database.sql("lock_claim"), node, claim.id, claim.fence
                )
            except DRIVER_ERRORS as error:
                raise translate(error) from error
            if not held:
                await transaction.rollback()
                raise ClaimLost(claim.id)
            try:
                yield connection
            except BaseException:
                if not connection.is_closed():
                    await transaction.rollback()
                raise
            try:
                settled, woken = await settle_hooked(
                    self.database, connection, node, [_success(claim, completion)]
                )
                if not settled:
                    # Only possible when the task ended our transaction itself.
                    connection.terminate()
                    raise ClaimLost(claim.id)
                await transaction.commit()
                # What the task set on the connection must not reach the next user of it.
                await connection.reset()
            except DRIVER_ERRORS as error:
                connection.terminate()
                raise translate(error) from error
        self.notifier.publish([*(Hint(row["lane"]) for row in woken), *hints_for(settled)])
        if claim.hooks & Hook.LIMIT:
            self.notifier.publish([Hint(claim.lane)])


def _success(claim: Claim, completion: PendingCompletion) -> Settlement:
    return Settlement(
        id=claim.id,
        fence=claim.fence,
        task=claim.task,
        queue=completion.queue,
        lasted=completion.lasted,
        result=completion.result,
        state=State.SUCCEEDED,
        delay=None,
        charged=False,
        kind=None,
        error=None,
        reason=None,
    )
