"""Lets people change what jobs do, one by one or by the page."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, Final
from uuid import UUID

from detent.errors import Conflict, JobNotFound, KeyTaken
from detent.model.job import Hook, JobFilter
from detent.model.state import TERMINAL, State, Verb, sources
from detent.spi.notifier import Hint, Notifier, SignalHint, Wake
from detent.spi.store import Change
from detent.stores.postgres.database import Connection
from detent.stores.postgres.enqueue import drive, lock_awaited
from detent.stores.postgres.finish import after_end
from detent.stores.postgres.inspect import Inspecting
from detent.stores.postgres.outbox import hints_for, is_watched, record_events

MAX_ROUNDS: Final = 10


class Controlling(Inspecting):
    """The part of the store that `ControlStore` describes."""

    notifier: Notifier

    async def control_job(self, verb: Verb, job_id: UUID, change: Change) -> State:
        """See `ControlStore.control_job`."""
        for _ in range(MAX_ROUNDS):
            known = await self.get_jobs([job_id])
            if not known:
                raise JobNotFound(job_id)
            if known[0].archived_at is not None:
                raise Conflict(job_id, verb, "archived")
            state, generation = known[0].state, known[0].generation
            target = change.target(job_id, verb, state, generation)
            if await self._apply(verb, [job_id], generation, state, change):
                # A running job is only asked to stop; it is its node that cancels it.
                asked = verb is Verb.CANCEL and state is State.RUNNING
                return State.RUNNING if asked else target
        raise Conflict(job_id, verb, "moving too fast; try again")

    async def control_page(self, verb: Verb, where: JobFilter, limit: int, change: Change) -> int:
        """See `ControlStore.control_page`."""
        if where.archived:
            return 0
        allowed = sources(verb)
        states = tuple(state for state in where.states or allowed if state in allowed)
        moved = 0
        for state in states:
            page = replace(where, states=(state,))
            before: UUID | None = None
            while moved < limit:
                ids = await self.matching(page, limit - moved, before)
                if not ids:
                    break
                before = ids[-1]
                moved += await self._apply_each(verb, sorted(ids), state, change)
        return moved

    async def _apply_each(self, verb: Verb, ids: list[UUID], state: State, change: Change) -> int:
        """Apply a verb to many; a job whose key is taken does not stop the others."""
        try:
            return await self._apply(verb, ids, None, state, change)
        except KeyTaken:
            if len(ids) == 1:
                return 0
        middle = len(ids) // 2
        first = await self._apply_each(verb, ids[:middle], state, change)
        return first + await self._apply_each(verb, ids[middle:], state, change)

    async def _apply(
        self, verb: Verb, ids: list[UUID], generation: int | None, state: State, change: Change
    ) -> int:
        """Run the statement of a verb for jobs in a state; return how many it moved."""
        name, args = _statement(verb, state, change)

        async def work(connection: Connection) -> tuple[int, list[Wake]]:
            awaited: dict[UUID, UUID] = {}
            if name == "cancel_jobs":
                awaited = await drive(self.database, connection, lock_awaited(ids))
            rows = await connection.fetch(self.database.sql(name), ids, generation, *args)
            if name == "request_cancel":
                # Asked before is done, for one job; for a page only new requests count.
                count = sum(row["new"] for row in rows) if generation is None else len(rows)
                return count, [SignalHint(row["node"]) for row in rows]
            return len(rows), await self._follow_up(connection, verb, rows, awaited)

        count, wakes = await self.database.transact(work)
        self.notifier.publish(list(dict.fromkeys(wakes)))
        return count

    async def _follow_up(
        self,
        connection: Connection,
        verb: Verb,
        rows: Sequence[Any],
        awaited: Mapping[UUID, UUID],
    ) -> list[Wake]:
        """Do what the hooks of moved jobs ask for; return who has to be told.

        `awaited` says what canceled jobs were waiting for that still lives.
        """
        if verb is Verb.CANCEL:
            hooked = {
                row["id"]: awaited.get(row["id"]) if row["waits_for"] else None
                for row in rows
                if row["hooks"]
            }
            watched = [row["id"] for row in rows if is_watched(row)]
            await record_events(self.database, connection, watched)
            woken = await after_end(self.database, connection, hooked) if hooked else []
            return [*(Hint(row["lane"]) for row in woken), *hints_for(rows)]
        if verb is Verb.RETRY:
            for row in rows:
                if row["hooks"] & Hook.KEY and row["unique_key"] is not None:
                    key = (row["task"], row["unique_key"])
                    await self._take_key_again(connection, row["id"], *key)
        if verb is Verb.PAUSE:
            return []
        return [Hint(row["lane"], row["priority"], row["due_at"], row["id"]) for row in rows]

    async def _take_key_again(
        self, connection: Connection, job_id: UUID, task: str, key: str
    ) -> None:
        if not await connection.fetch(self.database.sql("reserve_unique_key"), key, job_id, task):
            holder = await connection.fetch(self.database.sql("find_key"), "unique", key, task)
            raise KeyTaken(key, holder[0]["job"] if holder else job_id)

    async def delete_page(self, where: JobFilter, limit: int) -> int:
        """See `ControlStore.delete_page`."""
        states = tuple(state for state in where.states or TERMINAL if state in TERMINAL)
        if not states:
            return 0
        page = replace(where, states=states)
        return len(await self.delete_jobs(await self.matching(page, limit)))

    async def delete_jobs(self, ids: Sequence[UUID]) -> list[UUID]:
        """See `ControlStore.delete_jobs`."""
        if not ids:
            return []
        return [row["id"] for row in await self.database.fetch("delete_jobs", sorted(ids))]

    async def pause_queue(self, queue: str) -> None:
        """See `ControlStore.pause_queue`."""
        await self.database.fetch("pause_queue", queue)

    async def resume_queue(self, queue: str) -> None:
        """See `ControlStore.resume_queue`."""
        await self.database.fetch("resume_queue", queue)
        self.notifier.publish([Hint(queue)])

    async def scale_queue(self, queue: str, slots: int | None) -> None:
        """See `ControlStore.scale_queue`."""
        await self.database.fetch("scale_queue", queue, slots)


def _statement(verb: Verb, state: State, change: Change) -> tuple[str, tuple[Any, ...]]:
    """Return the statement that moves jobs out of a state, and what it takes besides the ids."""
    match verb:
        case Verb.CANCEL if state is State.RUNNING:
            return "request_cancel", (change.reason,)
        case Verb.CANCEL:
            return "cancel_jobs", (change.reason, None)
        case Verb.PAUSE:
            return "pause_jobs", ()
        case Verb.RESUME:
            return "resume_jobs", ()
        case Verb.RESCHEDULE:
            delay = change.delay.total_seconds() if change.delay else 0.0
            return "reschedule_jobs", (change.due_at, delay)
        case Verb.RETRY:
            return "retry_jobs", ()
    raise ValueError(f"{verb} is not for people to use")
