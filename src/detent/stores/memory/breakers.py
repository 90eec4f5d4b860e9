"""Keeping circuit breakers, with the meaning that every other store must have."""

from collections.abc import Sequence
from datetime import datetime

from detent.spi.breakers import BreakerRow, BreakersNow
from detent.stores.memory.carrier import Carrier
from detent.stores.memory.tables import Tables


def load_breakers(tables: Tables, now: datetime, names: Sequence[str]) -> BreakersNow:
    """Return those that exist."""
    return BreakersNow(now, {n: tables.breakers[n] for n in names if n in tables.breakers})


def save_breakers(tables: Tables, now: datetime, rows: Sequence[BreakerRow]) -> list[str]:
    """Write those that nobody has written since they were read."""
    written = []
    for row in rows:
        stored = tables.breakers.get(row.name)
        if row.version == (0 if stored is None else stored.version) + 1:
            tables.breakers[row.name] = row
            written.append(row.name)
    return written


def breakers(tables: Tables, now: datetime) -> list[BreakerRow]:
    """Return all of them, by name."""
    return [tables.breakers[name] for name in sorted(tables.breakers)]


class Breaking(Carrier):
    """The part of the store that `BreakerStore` describes."""

    async def load_breakers(self, names: Sequence[str]) -> BreakersNow:
        return await self._do(load_breakers, names)

    async def save_breakers(self, rows: Sequence[BreakerRow]) -> list[str]:
        return await self._do(save_breakers, rows)

    async def breakers(self) -> list[BreakerRow]:
        return await self._do(breakers)
