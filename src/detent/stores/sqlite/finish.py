"""Takes the ends of claims."""

from collections.abc import Mapping, Sequence
from typing import Any, Final
from uuid import UUID

from detent.model.heirs import heir_of
from detent.model.job import Completion, Hook, Settlement
from detent.spi.notifier import Hint, Notifier, Wake
from detent.stores.sqlite.columns import (
    NO_ID,
    Payloads,
    moment,
    packed,
    pieces,
    seconds,
    uuid,
    written,
)
from detent.stores.sqlite.database import Database
from detent.stores.sqlite.outbox import record_events
from detent.stores.sqlite.session import Session
from detent.stores.sqlite.statements import sql

GOES_BACK: Final = ("pending", "waiting")


class Finishing:
    """The part of the store that `FinishStore` describes."""

    database: Database
    notifier: Notifier

    async def finish_jobs(self, node: UUID, completions: Sequence[Completion]) -> list[UUID]:
        """See `FinishStore.finish_jobs`."""
        accepted: list[UUID] = []
        for piece in pieces(completions, _size):
            accepted += await self._finish(node, piece)
        return accepted

    async def _finish(self, node: UUID, completions: Sequence[Completion]) -> list[UUID]:
        payloads = Payloads()
        ids = packed(end.id for end in completions)
        ends = written(
            [
                (end.fence, end.lasted, end.task, end.queue, *payloads.add(end.result))
                for end in completions
            ]
        )
        results = payloads.blob()
        mine = (node.bytes, ids, ends)

        def work(session: Session) -> list[Any] | None:
            outcomes = session.change(sql("finish_jobs", "outcome"), session.now, *mine, results)
            accepted = None
            if outcomes != len(completions):
                accepted = session.table(sql("finish_jobs", "accepted"), *mine)
            session.change(sql("finish_jobs", "gone"), *mine)
            return accepted

        accepted = await self.database.write(work)
        if accepted is None:
            return [end.id for end in completions]
        return list(dict.fromkeys(uuid(row[0]) for row in accepted))

    async def settle_jobs(self, node: UUID, settlements: Sequence[Settlement]) -> list[UUID]:
        """See `FinishStore.settle_jobs`."""
        accepted: list[UUID] = []
        for piece in pieces(settlements, _size):
            rows = await self.database.write(Settling(node, piece).write)
            self.notifier.publish(_wakes(rows))
            accepted += [uuid(row[0]) for row in rows]
        return accepted

    async def finish_hooked(
        self, node: UUID, settlements: Sequence[Settlement], *, patience: float | None = None
    ) -> list[UUID]:
        """See `FinishStore.finish_hooked`; a transaction locks the whole file, never a row."""
        if not settlements:
            return []
        settling = Settling(node, settlements)
        rows, woken = await self.database.write(settling.write_hooked)
        self.notifier.publish([*_wakes(rows), *(Hint(row[0]) for row in woken)])
        return [uuid(row[0]) for row in rows]


class Settling:
    """A batch of ends, made ready to be written before the lock is asked for."""

    def __init__(self, node: UUID, settlements: Sequence[Settlement]) -> None:
        payloads = Payloads()
        self._node = node.bytes
        self._ids = packed(end.id for end in settlements)
        self._ends = written([_fields(end, payloads) for end in settlements])
        self._payloads = payloads.blob()
        states = {str(end.state) for end in settlements}
        # Only what some end needs is written.
        wanted = {
            "outcome": bool(states.difference(GOES_BACK)),
            "ready": "pending" in states,
            "parked": "waiting" in states,
            "tried": any(end.kind is not None for end in settlements),
        }
        self._steps = [step for step, needed in wanted.items() if needed]
        self._goes_back = bool(states.intersection(GOES_BACK))

    def write(self, session: Session) -> list[Any]:
        """Write the ends of valid claims; return id, state and old place of each."""
        session.change(
            sql("settle_jobs", "said"), self._node, self._ids, self._ends, self._payloads
        )
        if self._goes_back:
            session.change(sql("settle_jobs", "held"))
        session.change(sql("settle_jobs", "gone"))
        for step in self._steps:
            session.change(sql("settle_jobs", step), session.now)
        session.change(sql("settle_jobs", "unsignaled"))
        session.change(sql("settle_jobs", "unprogressed"))
        settled = session.table(sql("settle_jobs", "settled"))
        session.change(sql("settle_jobs", "clear"))
        return settled

    def write_hooked(self, session: Session) -> tuple[list[Any], list[Any]]:
        """Do the same for jobs with hooks; return also the lanes of the jobs that it woke."""
        rows = self.write(session)
        ended = {uuid(row[0]): None for row in rows if row[1] not in GOES_BACK}
        if not ended:
            return rows, []
        told = record_events(
            session, [(uuid(row[0]), row[6]) for row in rows if row[1] not in GOES_BACK]
        )
        return rows, [*after_end(session, ended), *([hint.lane] for hint in told)]


def after_end(session: Session, ended: Mapping[UUID, UUID | None]) -> list[Any]:
    """Do what hooks ask for when jobs have ended; return the lanes of the jobs that it woke.

    `ended` maps each job to the one that it was waiting for, if any.
    """
    ids = packed(ended)
    waits = b"".join([NO_ID if waited is None else waited.bytes for waited in ended.values()])
    session.change(sql("release_unique_keys", "returned"), ids, waits)
    session.change(sql("release_unique_keys", "released"), ids)
    for job_id in ended:
        heir = heir_of(ended, job_id)
        if heir is not None:
            session.change(sql("pass_waits"), job_id.bytes, heir.bytes)
    woken = session.table(sql("wake_waiting", "woken"), ids)
    if woken:
        session.change(sql("wake_waiting", "ready"), ids, session.now)
        session.change(sql("wake_waiting", "gone"), ids)
    return woken


def _fields(end: Settlement, payloads: Payloads) -> tuple[Any, ...]:
    return (
        end.fence,
        end.task,
        end.queue,
        end.lasted,
        str(end.state),
        None if end.delay is None else seconds(end.delay),
        int(end.charged),
        end.kind,
        end.reason,
        *payloads.add(end.result),
        *payloads.add(end.error),
    )


def _size(end: Completion | Settlement) -> int:
    error = end.error if isinstance(end, Settlement) else None
    return len(end.result or b"") + len(error or b"")


def _wakes(rows: Sequence[Any]) -> list[Wake]:
    """Tell the nodes of jobs that went back; their floors may have passed the old place."""
    return [
        Hint(lane, priority, moment(due_at), uuid(job_id))
        if state == "pending" and not delay
        else Hint(lane)
        for job_id, state, lane, priority, due_at, delay, hooks, *_ in rows
        # Whoever held a permit has given it back: others may be let in.
        if state == "pending" or hooks & Hook.LIMIT
    ]
