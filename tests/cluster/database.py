"""What the tests ask the database, beside the store: who holds what, and how many are where."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, Final

import asyncpg

from detent.testing.postgres import TemporaryPostgres

PATIENCE: Final = 30.0

_LIVE: Final = """
    SELECT (SELECT count(*) FROM detent.detent_ready) + (SELECT count(*) FROM detent.detent_running)
        + (SELECT count(*) FROM detent.detent_parked)
"""


@asynccontextmanager
async def connected(url: str) -> AsyncIterator[Any]:
    """A connection of our own, without any of the store's settings."""
    connection = await asyncpg.connect(url)
    try:
        yield connection
    finally:
        await connection.close()


async def until(
    holds: Callable[[], Awaitable[Any]], what: str, patience: float = PATIENCE, pause: float = 0.05
) -> None:
    """Ask again and again, since a database tells nobody; fail when it takes too long."""
    ends_at = asyncio.get_running_loop().time() + patience
    while not (last := await holds()):
        if asyncio.get_running_loop().time() > ends_at:
            raise AssertionError(f"waited {patience} s for {what}; the last answer was {last!r}")
        await asyncio.sleep(pause)


async def until_all_ended(connection: Any, patience: float = PATIENCE) -> None:
    """Wait until no job is pending, running or parked."""

    async def ended() -> bool:
        return not await connection.fetchval(_LIVE)

    await until(ended, "the end of all jobs", patience)


async def states(connection: Any) -> dict[str, int]:
    """How many jobs are in each state."""
    rows = await connection.fetch("SELECT state, count(*) FROM detent.detent_jobs GROUP BY 1")
    return {row[0]: row[1] for row in rows}


class ServerLog:
    """What a server has complained about since this was made."""

    def __init__(self, server: TemporaryPostgres) -> None:
        self._path: Path = server.log_path
        self._start = self._path.stat().st_size

    def text(self) -> str:
        with self._path.open(errors="replace") as log:
            log.seek(self._start)
            return log.read()
