"""Takes the ends of claims."""

from collections.abc import Mapping, Sequence
from typing import Any
from uuid import UUID

from detent.model.heirs import heir_of
from detent.model.job import Completion, Hook, Settlement
from detent.spi.notifier import Hint, Notifier
from detent.stores.postgres.columns import unless_empty
from detent.stores.postgres.database import Connection, Database
from detent.stores.postgres.outbox import hints_for, is_watched, record_events


class Finishing:
    """The part of the store that `FinishStore` describes."""

    database: Database
    notifier: Notifier

    async def finish_jobs(self, node: UUID, completions: Sequence[Completion]) -> list[UUID]:
        """See `FinishStore.finish_jobs`."""
        if not completions:
            return []
        ids, fences, tasks, queues, lasted, results = zip(*sorted(completions), strict=True)
        kinds = {
            kind: n for n, kind in enumerate(dict.fromkeys(zip(tasks, queues, strict=True)), 1)
        }
        rows = await self.database.fetch(
            "finish_jobs",
            node,
            ids,
            fences,
            lasted,
            unless_empty(results),
            # Nearly always all are of one kind, and sending text per row is not free.
            None if len(kinds) == 1 else [kinds[k] for k in zip(tasks, queues, strict=True)],
            [task for task, _ in kinds],
            [queue for _, queue in kinds],
        )
        return [row[0] for row in rows]

    async def settle_jobs(self, node: UUID, settlements: Sequence[Settlement]) -> list[UUID]:
        """See `FinishStore.settle_jobs`."""
        if not settlements:
            return []
        rows = await self.database.fetch("settle_jobs", node, *_columns(settlements))
        self._wake_for(rows)
        return [row["id"] for row in rows]

    async def finish_hooked(
        self, node: UUID, settlements: Sequence[Settlement], *, patience: float | None = None
    ) -> list[UUID]:
        """See `FinishStore.finish_hooked`."""
        if not settlements:
            return []

        async def work(connection: Connection) -> tuple[list[Any], list[Any]]:
            return await settle_hooked(self.database, connection, node, settlements)

        rows, woken = await self.database.transact(work, patience=patience)
        self._wake_for(rows)
        self.notifier.publish([*(Hint(row["lane"]) for row in woken), *hints_for(rows)])
        return [row["id"] for row in rows]

    def _wake_for(self, rows: Sequence[Any]) -> None:
        """Tell the nodes of jobs that went back; their floors may have passed the old place."""
        self.notifier.publish(
            [
                Hint(row["lane"])
                if row["delay"] or row["state"] != "pending"
                else Hint(row["lane"], row["priority"], row["due_at"], row["id"])
                for row in rows
                # Whoever held a permit has given it back: others may be let in.
                if row["state"] == "pending" or row["hooks"] & Hook.LIMIT
            ]
        )


async def settle_hooked(
    database: Database, connection: Connection, node: UUID, settlements: Sequence[Settlement]
) -> tuple[list[Any], list[Any]]:
    """Settle jobs with hooks inside a transaction; return the settled rows and the woken ones.

    Each step is a statement of its own, so that it sees what was committed while the step before
    waited for its locks: a replacement that was parked meanwhile is not overlooked.
    """
    rows = await connection.fetch(database.sql("settle_jobs"), node, *_columns(settlements))
    ended = {row["id"]: None for row in rows if row["state"] not in ("pending", "waiting")}
    if not ended:
        return rows, []
    await record_events(
        database, connection, [row["id"] for row in rows if row["id"] in ended and is_watched(row)]
    )
    return rows, await after_end(database, connection, ended)


async def after_end(
    database: Database, connection: Connection, ended: Mapping[UUID, UUID | None]
) -> list[Any]:
    """Do what hooks ask for when jobs have ended; return the rows of the jobs that it woke.

    `ended` maps each job to the one that it was waiting for, if any.
    """
    ids = sorted(ended)
    # A key does not go back to a job that has ended together with its replacement.
    waits = [None if ended[job_id] in ended else ended[job_id] for job_id in ids]
    await connection.fetch(database.sql("release_unique_keys"), ids, waits)
    heirs = {job_id: heir_of(ended, job_id) for job_id in ids if ended[job_id] is not None}
    if any(heirs.values()):
        await connection.fetch(database.sql("pass_waits"), list(heirs), list(heirs.values()))
    return list(await connection.fetch(database.sql("wake_waiting"), ids))


def _columns(settlements: Sequence[Settlement]) -> list[Sequence[Any]]:
    """Return the columns of the settle statement, the rows in id order."""
    rows = sorted(settlements, key=lambda settlement: settlement.id)
    return list(zip(*rows, strict=True))
