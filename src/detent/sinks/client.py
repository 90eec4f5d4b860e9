"""Posts to one URL over connections that stay open; a TLS handshake costs more than all the rest.

Plain HTTP/1.1 on the event loop of the caller: no thread per request, so that deliveries and jobs
do not fight for the interpreter.
"""

import asyncio
import ssl
from collections.abc import Callable, Mapping
from concurrent.futures import Future
from socket import SOCK_STREAM, getaddrinfo
from threading import Thread
from typing import Final, NamedTuple, TypeVar
from urllib.parse import SplitResult
from weakref import WeakKeyDictionary

_T = TypeVar("_T")

_PORTS: Final = {"http": 80, "https": 443}
# A connection that has waited this long is closed; most receivers close theirs after 60 s or more.
IDLE: Final = 30.0
# How much of a body is read so that its connection can be used again.
_READ: Final = 65_536
# How long the rest of a body is waited for: an answer may have no end.
_REST: Final = 0.25


class Response(NamedTuple):
    """What the receiver said."""

    status: int
    headers: Mapping[str, str]
    """By names in lower case."""
    body: bytes
    """What could be read of it at once."""


class ClosedByReceiver(ConnectionError):
    """The connection ended before any byte of an answer."""


class _Connection(NamedTuple):
    reader: asyncio.StreamReader
    writer: asyncio.StreamWriter


class _Idle:
    """The connections of one event loop that wait for a request."""

    def __init__(self) -> None:
        self._waiting: dict[_Connection, asyncio.TimerHandle] = {}

    def take(self) -> _Connection | None:
        while self._waiting:
            connection, timer = self._waiting.popitem()
            timer.cancel()
            if not (connection.reader.at_eof() or connection.writer.is_closing()):
                return connection
            connection.writer.transport.abort()
        return None

    def put(self, connection: _Connection) -> None:
        loop = asyncio.get_running_loop()
        self._waiting[connection] = loop.call_later(IDLE, self._close, connection)

    def _close(self, connection: _Connection) -> None:
        del self._waiting[connection]
        # Without a farewell, which over TLS would wait for the other side's.
        connection.writer.transport.abort()

    def clear(self) -> None:
        while (connection := self.take()) is not None:
            connection.writer.transport.abort()


class HttpClient:
    """Posts to one URL, from any number of event loops."""

    def __init__(self, url: SplitResult) -> None:
        assert url.hostname is not None
        self._secure = url.scheme == "https"
        self.host, self.port = url.hostname, url.port or _PORTS[url.scheme]
        target = (url.path or "/") + (f"?{url.query}" if url.query else "")
        self._start = f"POST {target} HTTP/1.1\r\nHost: {url.netloc}\r\n"
        self._idle: WeakKeyDictionary[asyncio.AbstractEventLoop, _Idle] = WeakKeyDictionary()
        self._context: ssl.SSLContext | None = None

    async def post(self, body: bytes, headers: Mapping[str, str]) -> Response:
        """Send one request; raise OSError when there is no answer.

        A kept connection may be closed by the receiver at any moment; without a byte of an answer
        the request is sent again, on a new one.
        """
        lines = "".join(f"{name}: {value}\r\n" for name, value in headers.items())
        head = f"{self._start}{lines}Content-Length: {len(body)}\r\n\r\n".encode("ascii")
        idle = self._idle.setdefault(asyncio.get_running_loop(), _Idle())
        kept = idle.take()
        if kept is not None:
            try:
                return await self._exchange(idle, kept, head + body)
            except ClosedByReceiver:
                pass
        return await self._exchange(idle, await self._connect(), head + body)

    async def close(self) -> None:
        """Close the connections of this event loop that wait."""
        idle = self._idle.pop(asyncio.get_running_loop(), None)
        if idle is not None:
            idle.clear()
            await asyncio.sleep(0)  # the loop lets go of them in its next round

    async def _exchange(self, idle: _Idle, connection: _Connection, request: bytes) -> Response:
        """Send a request and read its answer; keep the connection if the answer is complete."""
        reader, writer = connection
        is_reusable = False
        try:
            writer.write(request)
            status, version, headers = await _head(reader)
            # The status tells: no end is waited for that may never come.
            said, is_complete = await _body(reader, status, headers)
            is_reusable = is_complete and _stays_open(version, headers)
        finally:
            if is_reusable:
                idle.put(connection)
            else:
                writer.transport.abort()
        return Response(status, headers, said)

    async def _connect(self) -> _Connection:
        addresses = await _on_thread(self._prepare)
        problem: OSError | None = None
        for address in addresses:
            try:
                reader, writer = await asyncio.open_connection(
                    *address,
                    ssl=self._context,
                    server_hostname=self.host if self._context is not None else None,
                )
            except OSError as error:
                problem = error
            else:
                return _Connection(reader, writer)
        raise problem or OSError(f"{self.host} has no address")

    def _prepare(self) -> list[tuple[str, int]]:
        """Return where to connect to; on a thread, since names may take seconds."""
        if self._secure and self._context is None:
            # Reading the trusted certificates takes tens of milliseconds: once.
            self._context = ssl.create_default_context()
        found = getaddrinfo(self.host, self.port, type=SOCK_STREAM)
        return [(str(place[0]), self.port) for *_, place in found]


async def _head(reader: asyncio.StreamReader) -> tuple[int, str, dict[str, str]]:
    """Read until the answer begins; what only says "go on" is none."""
    while True:
        try:
            head = await reader.readuntil(b"\r\n\r\n")
        except asyncio.IncompleteReadError as error:
            if error.partial:
                raise ConnectionError("the answer is incomplete, no HTTP response") from error
            raise ClosedByReceiver("the connection was closed without an answer") from error
        except ConnectionError as error:
            raise ClosedByReceiver(str(error)) from error
        except asyncio.LimitOverrunError as error:
            raise ConnectionError("the head of the answer is too long, no HTTP response") from error
        first, *lines = head[:-4].decode("latin-1").split("\r\n")
        version, _, rest = first.partition(" ")
        if not version.startswith("HTTP/1.") or not (rest[:3].isascii() and rest[:3].isdigit()):
            raise ConnectionError(f"{first[:50]!r} is no HTTP response")
        if (status := int(rest[:3])) >= 200:
            pairs = (line.partition(":") for line in lines)
            return status, version, {name.strip().lower(): text.strip() for name, _, text in pairs}


async def _body(
    reader: asyncio.StreamReader, status: int, headers: Mapping[str, str]
) -> tuple[bytes, bool]:
    """Return what could be read of a body at once, and whether that is all of it."""
    if status in (204, 304):
        return b"", True
    length = headers.get("content-length", "")
    try:
        async with asyncio.timeout(_REST):
            if "chunked" in headers.get("transfer-encoding", "").lower():
                return await _chunks(reader)
            if length.isascii() and length.isdigit() and int(length[:9]) <= _READ:
                return await reader.readexactly(int(length)), True
            return b"" if status < 300 else await reader.read(_READ), False
    except (OSError, ValueError, asyncio.IncompleteReadError):
        return b"", False


async def _chunks(reader: asyncio.StreamReader) -> tuple[bytes, bool]:
    body = b""
    while len(body) <= _READ:
        size = int((await reader.readline()).partition(b";")[0], 16)
        if size <= 0:
            while (await reader.readline()).strip():
                pass  # lines after the last chunk
            return body, size == 0
        body += (await reader.readexactly(min(size, _READ) + 2))[:-2]
    return body, False


def _stays_open(version: str, headers: Mapping[str, str]) -> bool:
    return version != "HTTP/1.0" and "close" not in headers.get("connection", "").lower()


async def _on_thread(work: Callable[[], _T]) -> _T:
    """Run something on a thread that does not keep the process alive, as a pool's would."""
    done: Future[_T] = Future()
    # As a pool does: what has begun cannot be canceled, and may end when nothing waits for it.
    done.set_running_or_notify_cancel()

    def run() -> None:
        try:
            done.set_result(work())
        except BaseException as error:  # noqa: BLE001  handed on to the coroutine that waits
            done.set_exception(error)

    Thread(target=run, name="detent-webhook", daemon=True).start()
    return await asyncio.wrap_future(done)
