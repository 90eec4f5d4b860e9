"""A way to the database that can be broken: one for each node, on the loopback."""

import asyncio
from typing import Final, Self
from urllib.parse import urlsplit, urlunsplit

CHUNK: Final = 1 << 16


class FaultProxy:
    """Forwards bytes, or swallows them, or hangs up."""

    def __init__(self, url: str) -> None:
        parts = urlsplit(url)
        assert parts.hostname is not None
        assert parts.port is not None
        self._target = (parts.hostname, parts.port)
        self._parts = parts
        self._open = asyncio.Event()
        self._open.set()
        self._server: asyncio.Server | None = None
        self._tasks: dict[asyncio.Task[None], None] = {}

    async def __aenter__(self) -> Self:
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", 0)
        return self

    async def __aexit__(self, *_: object) -> None:
        assert self._server is not None
        self._server.close()
        self.hang_up()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    @property
    def url(self) -> str:
        """The URL of the database, by this way."""
        assert self._server is not None
        port = self._server.sockets[0].getsockname()[1]
        user = f"{self._parts.username}@" if self._parts.username else ""
        return urlunsplit(self._parts._replace(netloc=f"{user}127.0.0.1:{port}"))

    @property
    def connections(self) -> int:
        """How many connections were made and not closed yet."""
        return len(self._tasks)

    def blackhole(self) -> None:
        """Swallow everything from now on: connections stay, and nothing comes through."""
        self._open.clear()

    def heal(self) -> None:
        """Let through what was held up, and what comes."""
        self._open.set()

    def hang_up(self) -> None:
        """Close all connections."""
        for task in list(self._tasks):
            task.cancel()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._tasks[task] = None
        try:
            await self._open.wait()
            there = await asyncio.open_connection(*self._target)
            try:
                async with asyncio.TaskGroup() as group:
                    group.create_task(self._pump(reader, there[1]))
                    group.create_task(self._pump(there[0], writer))
            finally:
                there[1].close()
        except* (OSError, asyncio.CancelledError, _EndedError):
            pass
        finally:
            # Nobody waits for the other side to take the rest: it may be frozen.
            writer.close()
            del self._tasks[task]

    async def _pump(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while data := await reader.read(CHUNK):
            await self._open.wait()
            writer.write(data)
            await writer.drain()
        # One side has hung up: so does the other.
        raise _EndedError


class _EndedError(Exception):
    """A connection has come to its end."""
