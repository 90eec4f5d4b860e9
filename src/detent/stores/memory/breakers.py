"""Keeping circuit breakers, with the meaning that every other store must have."""

from collections.abc import Callable, Sequence
from datetime import datetime
from typing import Any

from detent.spi.breakers import BreakerRow, BreakersNow
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


class Breaking:
    """The part of the store that `BreakerStore` describes."""

    async def _do(self, statement: Callable[..., Any], /, *args: Any) -> Any:
        """Carry out one statement at one moment."""
        raise NotImplementedError

    async def load_breakers(self, names: Sequence[str]) -> BreakersNow:
        found: BreakersNow = await self._do(load_breakers, names)
        return found

    async def save_breakers(self, rows: Sequence[BreakerRow]) -> list[str]:
        written: list[str] = await self._do(save_breakers, rows)
        return written

    async def breakers(self) -> list[BreakerRow]:
        rows: list[BreakerRow] = await self._do(breakers)
        return rows
