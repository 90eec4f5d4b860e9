"""Serves running jobs: signals to them, and their side writes, each fenced by its claim."""

import asyncio
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import asynccontextmanager, contextmanager, suppress
from typing import Any
from uuid import UUID

from detent.errors import ClaimLost
from detent.model.job import Claim, Hook, LogLine, Progress, Signal
from detent.spi.notifier import Hint, Notifier
from detent.spi.store import PendingCompletion
from detent.stores.postgres.database import Connection, Database, transaction_on
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
        async with self.database.lent() as connection:
            transaction = transaction_on(connection)
            with _our_errors(connection):
                await transaction.start()
                held = await connection.fetch(
                    self.database.sql("lock_claim"), node, claim.id, claim.fence
                )
                if not held:
                    await transaction.rollback()
                    raise ClaimLost(claim.id)
            try:
                yield connection
            except asyncio.CancelledError:
                # Not a rollback, which would wait for a server that may be silent.
                connection.terminate()
                raise
            except BaseException:
                # If even that fails, it is still the task's error that counts.
                with suppress(*DRIVER_ERRORS):
                    await transaction.rollback()
                raise
            with _our_errors(connection):
                settled, woken = await settle_hooked(
                    self.database, connection, node, [completion.success_of(claim)]
                )
                if not settled:
                    # Only possible when the task ended our transaction itself.
                    connection.terminate()
                    raise ClaimLost(claim.id)
                await transaction.commit()
        self.notifier.publish([*(Hint(row["lane"]) for row in woken), *hints_for(settled)])
        if claim.hooks & Hook.LIMIT:
            self.notifier.publish([Hint(claim.lane)])


@contextmanager
def _our_errors(connection: Connection) -> Iterator[None]:
    """Turn the driver's errors into ours; where a transaction stands after one is unknown."""
    try:
        yield
    except DRIVER_ERRORS as error:
        connection.terminate()
        raise translate(error) from error
