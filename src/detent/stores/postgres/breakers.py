"""Keeps circuit breakers, each with one writer at a time."""

from collections.abc import Sequence

from detent.spi.breakers import BreakerRow, BreakersNow
from detent.stores.postgres.database import Database


class Breaking:
    """The part of the store that `BreakerStore` describes."""

    database: Database

    async def load_breakers(self, names: Sequence[str]) -> BreakersNow:
        """See `BreakerStore.load_breakers`."""
        found = [tuple(row) for row in await self.database.fetch("load_breakers", list(names))]
        rows = [BreakerRow._make(values) for _, *values in found if values[0] is not None]
        return BreakersNow(found[0][0], {row.name: row for row in rows})

    async def save_breakers(self, rows: Sequence[BreakerRow]) -> list[str]:
        """See `BreakerStore.save_breakers`."""
        if not rows:
            return []
        columns = [list(column) for column in zip(*rows, strict=True)]
        return [row["name"] for row in await self.database.fetch("save_breakers", *columns)]

    async def breakers(self) -> list[BreakerRow]:
        """See `BreakerStore.breakers`."""
        return [BreakerRow._make(row) for row in await self.database.fetch("list_breakers")]
