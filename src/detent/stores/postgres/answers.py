"""What the servers of one URL say about themselves when all of them are asked side by side."""

import asyncio
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any, Final, NamedTuple
from urllib.parse import parse_qs, urlsplit

import asyncpg

from detent.spawning import spawn_quietly
from detent.stores.postgres.parameters import with_parameters

# A host that said no is asked again after this time, while others have not answered yet: it may
# have been promoted.
AGAIN: Final = 0.25
# How much longer the others may take when one host has said yes: of two, the newer one counts.
GRACE: Final = 0.5
CLOSING: Final = 1.0

# What may be different at another host, or a moment later. A password that is wrong is wrong
# everywhere.
ELSEWHERE: Final = (
    OSError,
    TimeoutError,
    asyncpg.CannotConnectNowError,
    asyncpg.TooManyConnectionsError,
    asyncpg.InterfaceError,
    asyncpg.InternalClientError,
    asyncpg.PostgresConnectionError,
    asyncpg.InvalidCatalogNameError,  # a standby may not know a new database yet
)
_BROKEN_OFF: Final = (ConnectionResetError, asyncpg.ConnectionDoesNotExistError)
_STATE: Final = """
SELECT pg_backend_pid(), pg_is_in_recovery() OR current_setting('transaction_read_only')::boolean
"""
# The first eight digits are the timeline, which every promotion raises. Any role may ask.
_TIMELINE: Final = "SELECT pg_walfile_name(pg_current_wal_lsn())"
_DIGITS: Final = 8


class Place(NamedTuple):
    """One server, as it was found. After a failover the same name may lead to another one."""

    number: int
    """Which of the hosts."""
    timeline: int
    """Raised by every promotion; 0 where the server does not tell."""
    writable: bool
    pooled: bool
    """Whether a transaction pooler stands in between."""


class HandshakeError(ConnectionError):
    """The connection was accepted and ended again, before any server said a word."""


async def ask(url: str, number: int, limit: float) -> Place:
    """Return what one server says about itself."""
    async with asyncio.timeout(limit):
        connection = await connect(url, timeout=limit, statement_cache_size=0)
        try:
            process, read_only = await connection.fetchrow(_STATE)
            timeline = 0 if read_only else await _timeline(connection)
            # A pooler is known by its process id, which is not that of the server behind it.
            pooled = process != connection.get_server_pid()
            await connection.close(timeout=CLOSING)
        except BaseException:
            connection.terminate()
            raise
    return Place(number, timeline, not read_only, pooled)


async def _timeline(connection: Any) -> int:
    try:
        return int((await connection.fetchval(_TIMELINE))[:_DIGITS], 16)
    except asyncpg.PostgresError:
        return 0  # some providers keep their log elsewhere


async def connect(url: str, **options: Any) -> Any:
    """Connect to one host, as the driver does, with words for what it has none for."""
    try:
        address, how = with_parameters(url, options)
        return await asyncpg.connect(address, **how)
    except (ConnectionError, asyncpg.ConnectionDoesNotExistError) as error:
        # A refusal has a type of its own, and says what it is.
        if not isinstance(error, _BROKEN_OFF) and type(error) is not ConnectionError:
            raise
        raise HandshakeError(
            f"the connection was ended before a server answered ({error}); a proxy that has no "
            "server behind it does this"
        ) from error


async def _cancel_all(tasks: Sequence["asyncio.Task[None]"]) -> None:
    for each in tasks:
        each.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)


class Round:
    """One question to all hosts; it ends as soon as the answer is known."""

    def __init__(self, urls: Sequence[str], accepts: Callable[[Place], bool]) -> None:
        self._urls = urls
        self._accepts = accepts
        self._news = asyncio.Event()
        self.places: dict[int, Place] = {}
        self.failures: dict[int, BaseException] = {}

    async def run(self, limit: float) -> None:
        """Ask until all have answered, or one was accepted and the others had their time."""
        numbers = range(len(self._urls))
        asking = [spawn_quietly(partial(self._ask, number, limit)) for number in numbers]
        for number, each in enumerate(asking):
            each.add_done_callback(partial(self._end, number))
        try:
            await self._listen(limit)
        except asyncio.CancelledError:
            await _cancel_all(asking)
            raise
        # Not by `finally`: nothing can be awaited if the loop has stopped for ever.
        await _cancel_all(asking)

    async def _listen(self, limit: float) -> None:
        loop = asyncio.get_running_loop()
        ends_at = loop.time() + limit
        while len(self.places.keys() | self.failures.keys()) < len(self._urls):
            try:
                async with asyncio.timeout_at(ends_at):
                    await self._news.wait()
            except TimeoutError:
                return
            self._news.clear()
            if self.accepted():
                ends_at = min(ends_at, loop.time() + GRACE)

    async def _ask(self, number: int, limit: float) -> None:
        """Ask one host, again and again unless its answer is accepted or will not change."""
        while True:
            try:
                self._hear(number, await ask(self._urls[number], number, limit))
            except ELSEWHERE as error:
                self._hear(number, error)
            if number in self.places and self._accepts(self.places[number]):
                return
            await asyncio.sleep(AGAIN)

    def _end(self, number: int, asking: "asyncio.Task[None]") -> None:
        """Take what cannot change as the answer; it is raised if no host is accepted."""
        if not asking.cancelled() and (error := asking.exception()) is not None:
            self._hear(number, error)

    def _hear(self, number: int, answer: Place | BaseException) -> None:
        if isinstance(answer, Place):
            self.places[number] = answer
            self.failures.pop(number, None)
        else:
            self.failures[number] = answer
            self.places.pop(number, None)
        self._news.set()

    def accepted(self) -> list[Place]:
        """Return the servers that will do."""
        return [place for place in self.places.values() if self._accepts(place)]


class NoPrimaryError(ConnectionError):
    """Several hosts are named, and none of them takes writes."""

    def __init__(self, urls: Sequence[str], reasons: Mapping[int, str]) -> None:
        said = (f"{host_of(url)}: {reasons[number]}" for number, url in enumerate(urls))
        super().__init__(f"none of {len(urls)} hosts takes writes: {'; '.join(said)}")


def host_of(url: str) -> str:
    """Return host and port of a URL for one host, without the password."""
    parts = urlsplit(url)
    options = {name: values[-1] for name, values in parse_qs(parts.query).items()}
    host = options.get("host") or parts.netloc.rpartition("@")[2] or "localhost"
    return f"{host}:{options['port']}" if "port" in options else host
