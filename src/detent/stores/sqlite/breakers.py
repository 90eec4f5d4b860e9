"""Keeps circuit breakers, each with one writer at a time."""

from collections.abc import Sequence
from typing import Any

from detent.spi.breakers import BreakerRow, BreakersNow
from detent.stores.sqlite.columns import micros_or_none, moment, moment_or_none, whole, written
from detent.stores.sqlite.database import Database
from detent.stores.sqlite.session import Session
from detent.stores.sqlite.statements import sql


class Breaking:
    """The part of the store that `BreakerStore` describes."""

    database: Database

    async def load_breakers(self, names: Sequence[str]) -> BreakersNow:
        """See `BreakerStore.load_breakers`."""
        wanted = written(list(names))

        def work(session: Session) -> BreakersNow:
            rows = [_row(values) for values in session.rows(sql("load_breakers"), wanted)]
            return BreakersNow(moment(session.now), {row.name: row for row in rows})

        return await self.database.read(work)

    async def save_breakers(self, rows: Sequence[BreakerRow]) -> list[str]:
        """See `BreakerStore.save_breakers`."""
        if not rows:
            return []

        def work(session: Session) -> list[str]:
            return [
                row.name
                for row in rows
                if session.change(
                    sql("save_breakers"),
                    whole(row.name),
                    row.version,
                    row.phase,
                    micros_or_none(row.since),
                    micros_or_none(row.half_open_at),
                    row.body,
                )
            ]

        return await self.database.write(work)

    async def breakers(self) -> list[BreakerRow]:
        """See `BreakerStore.breakers`."""
        rows = await self.database.read(lambda session: session.rows(sql("list_breakers")))
        return [_row(values) for values in rows]


def _row(values: Sequence[Any]) -> BreakerRow:
    name, version, phase, since, half_open_at, body = values
    moments = moment_or_none(since), moment_or_none(half_open_at)
    return BreakerRow(name, version, phase, *moments, body)
