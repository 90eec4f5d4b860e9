"""Tells an operator which sessions keep a migration waiting, so that they can be ended."""

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from typing import Any, Final

from detent.stores.postgres.failures import DRIVER_ERRORS
from detent.stores.postgres.hosts import Hosts

CONNECT: Final = 5.0
# A lock that is given within this time needs no explanation.
LOOK: Final = 0.3

# A prepared transaction has no session: its pid is 0. A role without the right to read statistics
# sees no state and no age of the sessions of others.
_BLOCKERS: Final = """
SELECT blocking.pid, activity.application_name AS application, activity.usename AS role,
    activity.state,
    date_part('epoch', clock_timestamp() - activity.xact_start)::float8 AS age
FROM (SELECT DISTINCT pid FROM unnest(pg_blocking_pids($1::integer)) AS waited_for (pid))
    AS blocking
LEFT JOIN pg_stat_activity AS activity ON activity.pid = blocking.pid
ORDER BY activity.xact_start NULLS LAST, blocking.pid
"""


@dataclass(frozen=True, slots=True)
class Blocker:
    """One session whose open transaction holds a lock that a migration needs."""

    pid: int
    application: str | None = None
    role: str | None = None
    state: str | None = None
    age: float | None = None
    """Seconds since its transaction began."""

    def __str__(self) -> str:
        if self.pid == 0:
            return "a prepared transaction (see pg_prepared_xacts)"
        since = None if self.age is None else f"transaction open for {self.age:.0f} s"
        role = f"role {self.role}" if self.role else None
        facts = ", ".join(fact for fact in (self.application, role, self.state, since) if fact)
        return f"pid {self.pid} ({facts})" if facts else f"pid {self.pid}"


class BlockerWatch:
    """Looks, from a connection of its own, at what another connection waits for."""

    def __init__(self, url: str, on_change: Callable[[Sequence[Blocker]], None]) -> None:
        self._url = url
        self._on_change = on_change
        self.seen: tuple[Blocker, ...] = ()
        """The sessions that were waited for at the last look that found any."""

    @asynccontextmanager
    async def watching(self, pid: int) -> AsyncIterator[None]:
        """Watch the session `pid` during the block."""
        watching = asyncio.ensure_future(self._watch(pid))
        try:
            yield
        finally:
            watching.cancel()
            with suppress(asyncio.CancelledError, *DRIVER_ERRORS):
                await watching

    async def _watch(self, pid: int) -> None:
        # Most steps wait for nothing: they cost no second connection.
        await asyncio.sleep(LOOK)
        connection: Any = await Hosts(self._url).connect(CONNECT, statement_cache_size=0)
        try:
            while True:
                if rows := await connection.fetch(_BLOCKERS, pid):
                    self._saw(tuple(Blocker(**dict(row)) for row in rows))
                await asyncio.sleep(LOOK)
        finally:
            connection.terminate()

    def _saw(self, blockers: tuple[Blocker, ...]) -> None:
        before, self.seen = self.seen, blockers
        if [each.pid for each in before] != [each.pid for each in blockers]:
            self._on_change(blockers)
