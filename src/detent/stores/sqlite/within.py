"""Joins a caller's transaction: his commit brings the jobs, his rollback takes them away.

The steps are those of any enqueue, on his connection and on his thread. What he set on it (row
factory, text factory, converters, isolation level) is for his own statements, and stays as it is.
"""

import sqlite3
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, Final, TypeVar

from detent.errors import StoreError, WrongConnection
from detent.model.announce import Trigger
from detent.model.job import Keys, NewJob, Placed
from detent.spi.notifier import Hint, Notifier
from detent.stores.sqlite.columns import packed
from detent.stores.sqlite.database import Database
from detent.stores.sqlite.enqueue import Batch, place_keyed
from detent.stores.sqlite.failures import DRIVER_ERRORS, translate
from detent.stores.sqlite.session import Session
from detent.stores.sqlite.statements import sql
from detent.stores.sqlite.transaction import SqliteConnection

T = TypeVar("T")

ACCEPTED: Final = "a sqlite3.Connection to {path}, or one of SQLAlchemy or Django on top of it"


class Within:
    """The part of `EnqueueStore` that works on callers' connections."""

    database: Database
    notifier: Notifier
    triggers: Trigger
    tells: bool
    """Whether wake-ups go through the file; else something else carries them."""

    async def enqueue_within(
        self, connection: Any, jobs: Sequence[NewJob], keys: Keys | None
    ) -> list[Placed]:
        """See `EnqueueStore.enqueue_within`: for what `ctx.transaction()` gives."""
        placed = await self.run_within(connection, lambda session: self._join(session, jobs, keys))
        self._tell(jobs)
        return placed

    def enqueue_within_sync(
        self, connection: Any, jobs: Sequence[NewJob], keys: Keys | None
    ) -> list[Placed]:
        """See `EnqueueStore.enqueue_within_sync`."""

        def work(session: Session) -> list[Placed]:
            if jobs:
                _lock(session.connection, keyed=keys is not None)
            return self._join(session, jobs, keys)

        placed = self.run_within_sync(connection, work)
        self._tell(jobs)
        return placed

    def _join(self, session: Session, jobs: Sequence[NewJob], keys: Keys | None) -> list[Placed]:
        told = [job for job in jobs if self.tells and self.triggers(job)]
        return _join(session, jobs, told, keys)

    def _tell(self, jobs: Sequence[NewJob]) -> None:
        """Hint at jobs that nothing else hints at, though their commit may be yet to come."""
        if not self.tells and (lanes := {job.lane: None for job in jobs if self.triggers(job)}):
            self.notifier.publish([Hint(lane) for lane in lanes])

    async def run_within(self, connection: Any, work: Callable[[Session], T]) -> T:
        """Do something in the transaction of a task."""
        if isinstance(connection, sqlite3.Connection):
            raise WrongConnection(
                "within= was given a sqlite3.Connection, and await would stop the event loop; "
                "use enqueue_sync() on the thread that the connection belongs to"
            )
        if not isinstance(connection, SqliteConnection):
            raise self._unknown(connection)
        return await connection.have_done(self.database, work)

    def run_within_sync(self, connection: Any, work: Callable[[Session], T]) -> T:
        """Do something in a caller's transaction, on his thread."""
        if isinstance(connection, SqliteConnection):
            raise WrongConnection(
                "within= was given the connection of ctx.transaction(); use: await ...enqueue()"
            )
        if not isinstance(connection, sqlite3.Connection):
            raise self._unknown(connection)
        try:
            self._check_file(connection)
            _check_transaction(connection)
            return work(Session(connection, self.database.clock()))
        except sqlite3.ProgrammingError as error:
            # Closed, or of another thread: the driver says which.
            raise WrongConnection(f"within= cannot use this connection: {error}") from error
        except DRIVER_ERRORS as error:
            raise _refusal(error, self.database.path) from error

    def _unknown(self, connection: object) -> WrongConnection:
        kind = type(connection)
        return WrongConnection(
            f"within= was given a {kind.__module__}.{kind.__qualname__}; the jobs of this app live "
            f"in SQLite, so it takes {ACCEPTED.format(path=self.database.path)}"
        )

    def _check_file(self, connection: sqlite3.Connection) -> None:
        """Refuse a connection to another file: no node would ever look there."""
        cursor = connection.cursor()
        cursor.row_factory = None
        factory, connection.text_factory = connection.text_factory, bytes
        try:
            # Not a SELECT from it: in a transaction that has done nothing yet, that would fix what
            # it sees, and whoever writes in the next moment would make it unable to write.
            rows = cursor.execute("PRAGMA database_list").fetchall()
        finally:
            connection.text_factory = factory
        name = next((file for _, name, file in rows if name == b"main"), None)
        path = (name or b"").decode("utf-8", "surrogateescape")
        with suppress(OSError):
            if path and Path(path).samefile(self.database.path):
                return
        where = path or "a database in memory"
        raise WrongConnection(
            f"within= was given a connection to {where}; the jobs of this app live in "
            f"{self.database.path}"
        )


def _check_transaction(connection: sqlite3.Connection) -> None:
    """Refuse a connection on which every statement would be committed by itself."""
    if connection.in_transaction:
        return
    # Since Python 3.12 there are two ways to say it.
    by_itself = getattr(connection, "autocommit", -1) is True or connection.isolation_level is None
    if by_itself and getattr(connection, "autocommit", -1) is not False:
        raise WrongConnection(
            "within= was given a sqlite3 connection in autocommit mode without an open "
            'transaction; open one: connection.execute("BEGIN IMMEDIATE")'
        )


def _lock(connection: sqlite3.Connection, *, keyed: bool) -> None:
    """Have the write lock, so that what is read about keys is still true when they are taken."""
    if not connection.in_transaction:
        # As the driver would before his first write. `with connection:` then commits it.
        connection.execute("BEGIN IMMEDIATE").close()
    elif keyed:
        connection.execute(sql("enqueue_keyed_job", "lock")).close()


def _join(
    session: Session, jobs: Sequence[NewJob], told: Sequence[NewJob], keys: Keys | None
) -> list[Placed]:
    """Store jobs and announce some of them, to be heard of with the commit."""
    if not jobs:
        return []
    if keys is None:
        Batch(jobs).store(session)
        placed = [Placed(job.id, created=True) for job in jobs]
    else:
        (job,) = jobs
        placed = [place_keyed(session, job, keys)]
    if told and any(each.created for each in placed):
        session.change(sql("notify_within"), packed(job.id for job in told))
    return placed


def _refusal(error: BaseException, path: str) -> StoreError:
    if getattr(error, "sqlite_errorcode", 0) == sqlite3.SQLITE_BUSY_SNAPSHOT:
        return WrongConnection(
            "within= was given a transaction that has read before somebody else wrote, so it can "
            'write no more; roll it back, and open it with: connection.execute("BEGIN IMMEDIATE")'
        )
    return translate(error, path)
