"""Joins a caller's transaction: his commit brings the jobs, his rollback takes them away.

The steps are those of any enqueue, on his connection, with a notification that his commit sends.
A job with keys is placed behind a savepoint, so that a key which is taken undoes the other key and
not the caller's work.
"""

from collections.abc import Generator, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, Final

from detent.errors import StoreError, StoreUnavailable, WrongConnection
from detent.model.announce import Trigger
from detent.model.gates import told_lanes
from detent.model.job import Keys, NewJob, Placed
from detent.spi.notifier import Hint, Notifier
from detent.stores.postgres.database import Database
from detent.stores.postgres.enqueue import Step, TakenError, enqueue_step, place_keyed
from detent.stores.postgres.failures import code_of, translate
from detent.stores.postgres.foreign import Caller, Row, failed_transaction, recognise, run_now
from detent.stores.postgres.identity import Home

# Not among the files: they touch no table, so there is no plan to look after.
SAVEPOINTS: Final = {
    "save": "SAVEPOINT detent_enqueue",
    "undo": "ROLLBACK TO SAVEPOINT detent_enqueue",
    "forget": "RELEASE SAVEPOINT detent_enqueue",
}
READ_ONLY: Final = "25006"
FAILED: Final = "25P02"
# What drivers call errors that did not come from the server.
BROKEN: Final = {"InterfaceError", "OperationalError", "InternalClientError", "OSError"}


class Within:
    """The part of `EnqueueStore` that works on callers' connections."""

    database: Database
    home: Home
    notifier: Notifier
    triggers: Trigger
    channel: str | None
    """Where NOTIFY is heard; None when something else carries wake-ups."""

    async def enqueue_within(
        self, connection: Any, jobs: Sequence[NewJob], keys: Keys | None
    ) -> list[Placed]:
        """See `EnqueueStore.enqueue_within`."""
        caller = recognise(connection)
        if caller.blocking:
            raise WrongConnection(
                f"{_kind(connection)} is a blocking connection: await would stop the event loop; "
                "use enqueue_sync() on its own thread"
            )
        return await self._join(caller, jobs, keys)

    def enqueue_within_sync(
        self, connection: Any, jobs: Sequence[NewJob], keys: Keys | None
    ) -> list[Placed]:
        """See `EnqueueStore.enqueue_within_sync`."""
        caller = recognise(connection)
        if not caller.blocking:
            raise WrongConnection(
                f"{_kind(connection)} is a connection of an event loop; use: await ...enqueue()"
            )
        return run_now(self._join(caller, jobs, keys))

    async def run_within(self, caller: Caller, name: str, *args: Any) -> list[Row]:
        """Run one statement in the caller's transaction."""
        with _refusals(caller):
            await caller.check()
            await self.home.check(caller)
            return await caller.fetch(self.database.sql(name), args)

    async def _join(
        self, caller: Caller, jobs: Sequence[NewJob], keys: Keys | None
    ) -> list[Placed]:
        with _refusals(caller):
            await caller.check()
            if not jobs:
                return []
            await self.home.check(caller)
            told = [job for job in jobs if self.triggers(job)]
            placed = await self._drive(caller, join(self.channel, jobs, told, keys))
        if self.channel is None and told:
            # Nothing else learns of his commit. Whoever looks too early looks again soon.
            lanes = told_lanes({job.lane: None for job in told})
            self.notifier.publish([Hint(lane) for lane in lanes])
        return placed

    async def _drive(
        self, caller: Caller, steps: Generator[Step, list[Any], list[Placed]]
    ) -> list[Placed]:
        """Run the steps; what the driver raises, they may still answer with another step."""
        try:
            step = next(steps)
            while True:
                sql = SAVEPOINTS.get(step.name) or self.database.sql(step.name)
                try:
                    rows = await caller.fetch(sql, step.args)
                except caller.errors as error:
                    step = steps.throw(error)
                else:
                    step = steps.send(rows)
        except StopIteration as done:
            placed: list[Placed] = done.value
            return placed


def join(
    channel: str | None, jobs: Sequence[NewJob], told: Sequence[NewJob], keys: Keys | None
) -> Generator[Step, list[Any], list[Placed]]:
    """Yield the statements that store jobs in the caller's transaction and announce some."""
    if keys is None:
        yield enqueue_step(jobs)
        placed = [Placed(job.id, created=True) for job in jobs]
    else:
        (job,) = jobs
        placed = [(yield from _place_saved(job, keys))]
    if channel is not None and told:
        # With their positions: when he commits, their due times may lie far below the floor of a
        # busy node. It is his commit that sends it.
        yield Step("notify_within", (channel, [job.id for job in told]))
    return placed


def _place_saved(job: NewJob, keys: Keys) -> Generator[Step, list[Any], Placed]:
    yield Step("save", ())
    try:
        placed = yield from place_keyed(job, keys)
    except TakenError as taken:
        yield Step("undo", ())
        # The caller's commit is to wait for the standby, even if it writes nothing else.
        yield Step("confirm_commits", ())
        placed = taken.placed
    except Exception:
        # Also a lock that was waited for in vain: the caller may go on without this job.
        yield Step("undo", ())
        yield Step("forget", ())
        raise
    yield Step("forget", ())
    return placed


@contextmanager
def _refusals(caller: Caller) -> Iterator[None]:
    """Turn the errors of the caller's driver into ours."""
    try:
        yield
    except UnicodeEncodeError as error:
        raise WrongConnection(
            f"within= was given a connection whose client encoding, {error.encoding}, has no "
            f"{error.object[error.start : error.end]!r}"
        ) from error
    except caller.errors as error:
        raise _refusal(error) from error


def _refusal(error: Exception) -> StoreError:
    code = code_of(error)
    if code == READ_ONLY:
        return WrongConnection("within= was given a connection in a read-only transaction")
    if code == FAILED:
        return failed_transaction(type(error).__module__.partition(".")[0])
    names = {kind.__name__ for kind in type(error).__mro__}
    if not code and names & BROKEN and not isinstance(error, ValueError):
        return StoreUnavailable(f"the connection given as within= broke: {str(error).strip()}")
    return translate(error)


def _kind(connection: object) -> str:
    return f"{type(connection).__module__}.{type(connection).__qualname__}"
