"""The PostgreSQL store: its parts put together."""

from dataclasses import replace
from datetime import datetime, timedelta

from detent.model.announce import Trigger, every_job
from detent.spi.nodes import NodeIdentity
from detent.spi.notifier import Notifier
from detent.stores.postgres.breakers import Breaking
from detent.stores.postgres.claim import Claiming
from detent.stores.postgres.context import Contexts
from detent.stores.postgres.control import Controlling
from detent.stores.postgres.database import Address, Database
from detent.stores.postgres.enqueue import Enqueuing
from detent.stores.postgres.finish import Finishing
from detent.stores.postgres.firing import Firers
from detent.stores.postgres.history import Remembering
from detent.stores.postgres.identity import Home
from detent.stores.postgres.leadership import Leading
from detent.stores.postgres.limits import Limiting
from detent.stores.postgres.locks import Locking
from detent.stores.postgres.migrations import check_version, migrate
from detent.stores.postgres.nodes import Nodes
from detent.stores.postgres.notifier import PostgresNotifier, channel_of
from detent.stores.postgres.outbox import Telling
from detent.stores.postgres.rescue import Rescuing
from detent.stores.postgres.retention import Retaining
from detent.stores.postgres.schedules import Scheduling
from detent.stores.postgres.sessions import LeaderSessions


class PostgresStore(
    Enqueuing,
    Leading,
    Locking,
    Limiting,
    Breaking,
    Claiming,
    Finishing,
    Nodes,
    Rescuing,
    Contexts,
    Controlling,
    Telling,
    Retaining,
    Scheduling,
    Firers,
    Remembering,
):
    """A `Store` on PostgreSQL 13 or later. One object serves any number of loops and forks.

    `notifier` carries its wake-ups if LISTEN and NOTIFY are not to; they listen on `direct_url`
    when a pooler stands before the other. `triggers` says which jobs wake the nodes when they are
    enqueued in a transaction of the caller's.
    """

    def __init__(  # noqa: PLR0913  each is a setting
        self,
        url: str,
        *,
        schema: str = "detent",
        pool_size: int = 10,
        pooler: bool | None = None,
        timeout: timedelta = timedelta(seconds=30),
        auto_migrate: bool = False,
        notifier: Notifier | None = None,
        direct_url: str | None = None,
        triggers: Trigger = every_job,
    ) -> None:
        self.database = Database(Address(url, schema, pool_size, pooler, timeout))
        self.notifier = notifier or self._notifier(direct_url)
        self.channel = channel_of(schema) if notifier is None else None
        self.triggers = triggers
        self.home = Home(self.database)
        self.sessions = LeaderSessions(self.database)
        self._auto_migrate = auto_migrate

    def _notifier(self, direct_url: str | None) -> PostgresNotifier:
        if direct_url is None:
            return PostgresNotifier(self.database)
        address = replace(self.database.address, url=direct_url, pool_size=1, pooler=None)
        return PostgresNotifier(self.database, Database(address))

    async def open(self) -> None:
        """See `StoreLifecycle.open`."""
        address = self.database.address
        if self._auto_migrate:
            await migrate(address.url, address.schema)
        await check_version(self.database)
        await self.check_history()

    async def join(self, node: NodeIdentity, lease: timedelta, *, ready: bool = True) -> datetime:
        """See `NodeStore.join`."""
        # A node that has lost its row may meet another database than before.
        await self.check_history()
        return await super().join(node, lease, ready=ready)

    def connections(self) -> int:
        """See `StoreLifecycle.connections`."""
        return self.database.connections()

    async def close(self) -> None:
        """See `StoreLifecycle.close`."""
        await self.sessions.close()
        await self.notifier.flush()
        await self.database.close()
