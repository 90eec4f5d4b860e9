"""The SQLite store: its parts put together."""

from collections.abc import Callable
from contextlib import suppress
from datetime import timedelta

from detent.errors import StoreError
from detent.model.announce import Trigger, every_job
from detent.spi.notifier import Notifier
from detent.stores.sqlite.breakers import Breaking
from detent.stores.sqlite.claim import Claiming
from detent.stores.sqlite.context import Contexts
from detent.stores.sqlite.control import Controlling
from detent.stores.sqlite.database import Database, wall_clock
from detent.stores.sqlite.enqueue import Enqueuing
from detent.stores.sqlite.finish import Finishing
from detent.stores.sqlite.firing import Firers
from detent.stores.sqlite.history import Remembering
from detent.stores.sqlite.leadership import Leading
from detent.stores.sqlite.limits import Limiting
from detent.stores.sqlite.locks import Locking
from detent.stores.sqlite.marks import note_numbers
from detent.stores.sqlite.nodes import Nodes
from detent.stores.sqlite.notifier import SqliteNotifier
from detent.stores.sqlite.outbox import Telling
from detent.stores.sqlite.rescue import Rescuing
from detent.stores.sqlite.retention import Retaining
from detent.stores.sqlite.schedules import Scheduling


class SqliteStore(
    Enqueuing,
    Claiming,
    Finishing,
    Nodes,
    Rescuing,
    Leading,
    Locking,
    Limiting,
    Breaking,
    Contexts,
    Controlling,
    Telling,
    Retaining,
    Scheduling,
    Firers,
    Remembering,
):
    """A `Store` in one file. One object serves any number of loops and forks.

    The file and its tables are made when they are first needed. `clock` gives microseconds since
    1970, and is the clock of everything that is due or expires. `notifier` carries wake-ups if the
    file is not to; `triggers` says which jobs wake the nodes when they are enqueued in a
    transaction of the caller's.
    """

    def __init__(
        self,
        path: str,
        *,
        timeout: timedelta = timedelta(seconds=30),
        clock: Callable[[], int] = wall_clock,
        notifier: Notifier | None = None,
        triggers: Trigger = every_job,
    ) -> None:
        self.database = Database(path, timeout, clock)
        self.notifier = notifier or SqliteNotifier(self.database)
        self.tells = notifier is None
        self.triggers = triggers

    async def open(self) -> None:
        """See `StoreLifecycle.open`."""
        await self.database.ready()

    def connections(self) -> int:
        """See `StoreLifecycle.connections`."""
        return 0

    async def close(self) -> None:
        """See `StoreLifecycle.close`."""
        await self.notifier.flush()
        if self.database.in_use:
            with suppress(StoreError):
                await self.database.read(lambda session: note_numbers(session, self.database.path))
        await self.database.close()
