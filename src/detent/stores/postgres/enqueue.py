"""Takes new jobs.

Placing a keyed job takes several statements. They are written as a generator that yields
statements and is sent their rows, so that the same steps serve our own connections and (in
`within.py`) the connections of callers, of any driver.
"""

import json
from collections.abc import Generator, Sequence
from typing import Any, Final, NamedTuple, TypeVar
from uuid import UUID

from detent.errors import Conflict, ConstraintViolated
from detent.model.job import Hook, Keys, NewJob, Placed
from detent.notifiers.wire import encode
from detent.spi.notifier import Notifier, SignalHint, Wake
from detent.stores.postgres.columns import shortened, unless_empty
from detent.stores.postgres.database import Connection, Database

_TAGS: Final = NewJob._fields.index("tags")
_DELAY: Final = NewJob._fields.index("delay")
_NULLABLE: Final = ("due_at", "options", "params", "tags", "principal", "trace")
_DISTINCT: Final = ("id", "args")
MAX_ROUNDS: Final = 10


class Step(NamedTuple):
    """A statement to run, by name, with its arguments."""

    name: str
    args: tuple[Any, ...]


Steps = Generator[Step, list[Any], Placed]
Result = TypeVar("Result")


class Enqueuing:
    """The part of the store that `EnqueueStore` describes."""

    database: Database
    notifier: Notifier
    channel: str | None

    async def enqueue_jobs(self, jobs: Sequence[NewJob], tell: Sequence[Wake] = ()) -> bool:
        """See `EnqueueStore.enqueue_jobs`."""
        if tell and self.channel is not None and len(jobs) == 1:
            try:
                row = (*_row(jobs[0]), self.channel, encode(tell))
                await self.database.fetch("enqueue_job", *row, to_its_end=True)
            except ConstraintViolated:
                pass  # found out below
            else:
                return True
        await self._enqueue_untold(jobs)
        return False

    async def _enqueue_untold(self, jobs: Sequence[NewJob]) -> None:
        while jobs:
            step = enqueue_step(jobs)
            try:
                await self.database.fetch(step.name, *step.args, to_its_end=True)
            except ConstraintViolated:
                # An id that is known was stored by an earlier try whose reply was lost.
                new = await self._without_known(jobs)
                if len(new) == len(jobs):
                    raise
                jobs = new
                if not jobs:
                    await self._confirm()
            else:
                return

    async def _confirm(self) -> None:
        """Write before an answer that rests on what earlier transactions have written.

        A transaction that writes nothing waits for no standby, so a job that was acknowledged
        could be lost with the primary.
        """
        await self.database.fetch("confirm_commits")

    async def _without_known(self, jobs: Sequence[NewJob]) -> list[NewJob]:
        """Return those that are not stored yet, each once and as it came first."""
        new = {job.id: job for job in reversed(jobs)}
        for row in await self.database.fetch("known_jobs", list(new)):
            del new[row["id"]]
        return list(reversed(new.values()))

    async def enqueue_keyed(self, job: NewJob, keys: Keys) -> Placed:
        """See `EnqueueStore.enqueue_keyed`."""
        stopped: list[Wake] = []

        async def work(connection: Connection) -> Placed:
            return await drive(self.database, connection, place_keyed(job, keys, stopped))

        try:
            placed = await self.database.transact(work)
        except TakenError as taken:
            await self._confirm()
            return taken.placed
        if stopped:
            self.notifier.publish(stopped)
        return placed


async def drive(
    database: Database, connection: Connection, steps: Generator[Step, list[Any], Result]
) -> Result:
    """Run the steps of a generator on a connection."""
    rows: list[Any] | None = None
    while True:
        try:
            step = next(steps) if rows is None else steps.send(rows)
        except StopIteration as done:
            result: Result = done.value
            return result
        rows = await connection.fetch(database.sql(step.name), *step.args)


class TakenError(Exception):
    """Carries the answer out of a transaction that must be undone."""

    def __init__(self, placed: Placed) -> None:
        super().__init__()
        self.placed = placed


def enqueue_step(jobs: Sequence[NewJob]) -> Step:
    """Return the statement that stores these jobs."""
    if len(jobs) == 1:
        return Step("enqueue_job", (*_row(jobs[0]), None, None))
    return Step("enqueue_jobs", job_columns(jobs))


def job_columns(jobs: Sequence[NewJob]) -> tuple[Any, ...]:
    """Return jobs as the columns of the statements for many."""
    columns: list[Any] = list(zip(*map(_row, jobs), strict=True))
    for index, name in enumerate(NewJob._fields):
        if name in _NULLABLE:
            columns[index] = unless_empty(columns[index])
        elif name not in _DISTINCT:
            columns[index] = shortened(columns[index])
    return tuple(columns)


def _row(job: NewJob) -> tuple[Any, ...]:
    """Return a job as the arguments of the enqueue statements."""
    if job.tags is None and job.delay is not None:
        return job
    row: list[Any] = list(job)
    row[_TAGS] = None if job.tags is None else json.dumps(job.tags)
    row[_DELAY] = job.delay or 0.0
    return tuple(row)


def place_keyed(job: NewJob, keys: Keys, stopped: list[Wake] | None = None) -> Steps:
    """Yield the statements that place a job with keys; return what it came to.

    What tells a node that a job of its own is to stop is added to `stopped`.
    """
    if keys.idempotency is not None:
        taken = yield from _take_idempotency_key(job, keys)
        if taken is not None:
            return taken
    waits_for: UUID | None = None
    if keys.unique is not None:
        waits_for = yield from _take_unique_key(job, keys.unique, keys.on_conflict, stopped)
    stored = yield Step("enqueue_keyed_job", (*_row(job), keys.idempotency, keys.unique, waits_for))
    if not stored:
        # A repeated call after a lost reply. The job may even have ended: take no keys for it.
        raise TakenError(Placed(job.id, created=True))
    return Placed(job.id, created=True)


def _take_idempotency_key(job: NewJob, keys: Keys) -> Generator[Step, list[Any], Placed | None]:
    """Return the job that holds the key already, or None when it is ours now."""
    ttl = keys.idempotency_ttl.total_seconds()
    wanted = (keys.idempotency, job.id, ttl, job.task, keys.digest)
    for _ in range(MAX_ROUNDS):
        if (yield Step("reserve_idempotency_key", wanted)):
            return None
        holders = yield Step("find_key", ("idempotency", keys.idempotency, job.task))
        if holders:
            kept = holders[0]["digest"]
            digest = None if kept is None else bytes.fromhex(kept)
            return Placed(holders[0]["job"], created=False, digest=digest)
    raise Conflict(job.id, "enqueue", "racing for its idempotency key")


def _take_unique_key(
    job: NewJob, key: str, on_conflict: str, stopped: list[Wake] | None
) -> Generator[Step, list[Any], UUID | None]:
    """Take a business key, from its holder if need be; return the job to wait for, if any.

    Callers that replace take turns for each key: without it, each would find that another one has
    just replaced the holder that it saw.
    """
    job_id, task = job.id, job.task
    is_our_turn = False
    for _ in range(MAX_ROUNDS):
        if (yield Step("reserve_unique_key", (key, job_id, task))):
            return None
        holders = yield Step("find_key", ("unique", key, task))
        if not holders:
            continue
        holder: UUID = holders[0]["job"]
        if holder == job_id:
            return None
        if on_conflict != "replace":
            taken = key if on_conflict == "raise" else None
            raise TakenError(Placed(holder, created=False, taken_key=taken))
        if not is_our_turn:
            yield Step("lock_unique_key", (task, key))
            is_our_turn = True
            continue
        displaced, waits_for = yield from _displace(holder, job_id, stopped)
        if displaced and (yield Step("pass_unique_key", (key, holder, job_id, task))):
            return waits_for
    raise Conflict(job_id, "enqueue", "racing for its business key")


def lock_awaited(ids: Sequence[UUID]) -> Generator[Step, list[Any], dict[UUID, UUID]]:
    """Return what waiting jobs wait for, as far as it lives, and keep that from ending."""
    waits = {row["id"]: row["waits_for"] for row in (yield Step("waits_of", (list(ids),)))}
    unknown = sorted(dict.fromkeys(waits.values()))
    live: dict[UUID, None] = {}
    for _ in range(MAX_ROUNDS):
        if not unknown:
            break
        live |= dict.fromkeys(row["id"] for row in (yield Step("lock_live", (unknown,))))
        ended = {row["id"] for row in (yield Step("ended_jobs", (unknown,)))}
        # Neither live nor ended: it was on its way from one table to another.
        unknown = [job_id for job_id in unknown if job_id not in live and job_id not in ended]
    return {job_id: awaited for job_id, awaited in waits.items() if awaited in live}


def _displace(
    holder: UUID, successor: UUID, stopped: list[Wake] | None
) -> Generator[Step, list[Any], tuple[bool, UUID | None]]:
    """Cancel the holder of a key; return whether it worked and what its successor waits for.

    Rows are locked in the order in which finishing jobs lock: the one that somebody waits for,
    those who wait, the key.
    """
    reason = f"replaced by {successor}"
    live = yield from lock_awaited([holder])
    canceled = yield Step("cancel_jobs", ([holder], None, reason, successor))
    if canceled:
        if canceled[0]["hooks"] & Hook.EVENT:
            yield Step("record_events", ([holder],))
        # A replacement that was itself still waiting hands its wait on.
        return True, live.get(holder) if canceled[0]["waits_for"] else None
    if asked := (yield Step("request_cancel", ([holder], None, reason))):
        if stopped is not None:
            stopped += [SignalHint(row["node"]) for row in asked]
        return True, holder
    return False, None
