"""The PostgreSQL store: its parts put together."""

from datetime import timedelta

from detent.stores.postgres.claim import Claiming
from detent.stores.postgres.context import Contexts
from detent.stores.postgres.control import Controlling
from detent.stores.postgres.database import Address, Database
from detent.stores.postgres.enqueue import Enqueuing
from detent.stores.postgres.finish import Finishing
from detent.stores.postgres.migrations import check_version, migrate
from detent.stores.postgres.nodes import Nodes
from detent.stores.postgres.notifier import PostgresNotifier


class PostgresStore(Enqueuing, Claiming, Finishing, Nodes, Contexts, Controlling):
    """A `Store` on PostgreSQL 13 or later. One object serves any number of loops and forks."""

    def __init__(
        self,
        url: str,
        *,
        schema: str = "detent",
        pool_size: int = 10,
        pooler: bool | None = None,
        timeout: timedelta = timedelta(seconds=30),
        auto_migrate: bool = False,
    ) -> None:
        self.database = Database(Address(url, schema, pool_size, pooler, timeout))
        self.notifier = PostgresNotifier(self.database)
        self._auto_migrate = auto_migrate

    async def open(self) -> None:
        """See `StoreLifecycle.open`."""
        address = self.database.address
        if self._auto_migrate:
            await migrate(address.url, address.schema)
        await check_version(self.database)

    async def close(self) -> None:
        """See `StoreLifecycle.close`."""
        await self.notifier.flush()
        await self.database.close()
