"""Sends events by HTTP, signed, one POST each."""

import asyncio
import http.client
import json
import socket
import ssl
import threading
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from email.utils import parsedate_to_datetime
from typing import Any, Final
from urllib.parse import SplitResult, urlsplit

from detent.errors import ConfigError, DeliveryFailed
from detent.sinks.signature import SIGNATURE, TIMESTAMP, Secret, checked_secrets, sign
from detent.spi.outbox import AlertInfo, OutboxEvent
from detent.spi.sinks import document
from detent.version import __version__

DEFAULT_TIMEOUT: Final = 10.0
# These say "not now"; any other 4xx says "not this".
_LATER: Final = (408, 425, 429)
_SCHEMES: Final = {"http": http.client.HTTPConnection, "https": http.client.HTTPSConnection}
_SHOWN: Final = 200
_OURS: Final = ("content-length", "content-type", "host", "transfer-encoding", "user-agent")


class WebhookSink:
    """A sink that posts JSON to a URL.

    Anything but a 2xx answer in time is tried again later; `Retry-After` is honoured, redirects
    are not followed. With `secret` each request is signed (see `verify_signature`); of several
    secrets each signs, so that a receiver can change from one to the next.
    """

    def __init__(
        self,
        url: str,
        *,
        secret: Secret | Sequence[Secret] | None = None,
        headers: Mapping[str, str] | None = None,
        timeout: float = DEFAULT_TIMEOUT,
    ) -> None:
        self._url = _checked_url(url)
        self._secrets = () if secret is None else checked_secrets("WebhookSink", secret)
        self._headers = _checked_headers(headers or {})
        if type(timeout) not in (int, float) or not 0 < timeout <= 300:
            raise ConfigError(f"WebhookSink: timeout = {timeout!r}: must be from 0 to 300 seconds")
        self.timeout = timeout

    def __repr__(self) -> str:
        return f"WebhookSink({self._url.scheme}://{self._url.netloc}{self._url.path})"

    async def deliver(self, event: OutboxEvent, alert: AlertInfo | None) -> None:
        """See `Sink.deliver`."""
        told = document(event, alert)
        body = json.dumps(told, separators=(",", ":")).encode()
        stamp = int(datetime.now(UTC).timestamp())
        headers = {
            **self._headers,
            "Content-Type": "application/json",
            "User-Agent": f"detent/{__version__}",
            "X-Detent-Event": told["type"],
            "X-Detent-Event-Id": str(event.id),
            TIMESTAMP: str(stamp),
        }
        if self._secrets:
            headers[SIGNATURE] = sign(body, stamp, self._secrets)
        lines: list[http.client.HTTPConnection] = []
        try:
            await _on_thread(lambda: self._post(lines, body, headers))
        except asyncio.CancelledError:
            for line in lines:
                _hang_up(line)
            raise

    def _post(
        self, lines: list[http.client.HTTPConnection], body: bytes, headers: Mapping[str, str]
    ) -> None:
        """Send one request, and raise unless it was accepted; on a thread.

        The connection is added to `lines`, so that another thread can end it.
        """
        connection = self._connection()
        lines.append(connection)
        target = self._url.path or "/"
        if self._url.query:
            target = f"{target}?{self._url.query}"
        try:
            connection.request("POST", target, body, dict(headers))
            with connection.getresponse() as answer:
                # Nobody waits for the end of an answer that may have none.
                said = b"" if 200 <= answer.status < 300 else answer.read1(_SHOWN)
        except (OSError, http.client.HTTPException) as error:
            raise DeliveryFailed(f"{type(error).__name__}: {error}") from error
        finally:
            connection.close()
        _judge(answer.status, said, answer.getheader("Retry-After"))

    def _connection(self) -> http.client.HTTPConnection:
        settings: dict[str, Any] = {"timeout": self.timeout}
        if self._url.scheme == "https":
            settings["context"] = ssl.create_default_context()
        assert self._url.hostname is not None
        make: type[http.client.HTTPConnection] = _SCHEMES[self._url.scheme]
        # Without a port it would look for one in the host, and an IPv6 address has colons.
        return make(self._url.hostname, self._url.port or make.default_port, **settings)


async def _on_thread(work: Callable[[], None]) -> None:
    """Run something on a thread that does not keep the process alive, as a pool's would."""
    done: Future[None] = Future()
    # As a pool does: what has begun cannot be canceled, and may end when nobody waits for it.
    done.set_running_or_notify_cancel()

    def run() -> None:
        try:
            work()
        except BaseException as error:  # noqa: BLE001  handed on to whoever waits
            done.set_exception(error)
        else:
            done.set_result(None)

    threading.Thread(target=run, name="detent-webhook", daemon=True).start()
    await asyncio.wrap_future(done)


def _hang_up(connection: http.client.HTTPConnection) -> None:
    """Let go of a receiver who answers drop by drop, or the thread would stay with him."""
    if connection.sock is not None:
        with suppress(OSError):
            connection.sock.shutdown(socket.SHUT_RDWR)


def _judge(status: int, said: bytes, retry_after: str | None) -> None:
    if 200 <= status < 300:
        return
    words = "".join(char for char in said.decode(errors="replace") if char.isprintable())
    message = f"HTTP {status}" + (f": {words}" if words else "")
    if 300 <= status < 400:
        raise DeliveryFailed(f"{message}; redirects are not followed", refused=True)
    if 400 <= status < 500 and status not in _LATER:
        raise DeliveryFailed(message, refused=True)
    raise DeliveryFailed(message, retry_after=_pause(retry_after))


def _pause(retry_after: str | None) -> timedelta | None:
    """Return what a receiver asks for: seconds, or a date."""
    if retry_after is None:
        return None
    text = retry_after.strip()
    if text.isascii() and text.isdigit():
        return timedelta(seconds=min(int(text[:9]), 10**8))
    try:
        until = parsedate_to_datetime(text)
    except (ValueError, OverflowError):
        return None
    if until.tzinfo is None:
        until = until.replace(tzinfo=UTC)
    return max(until - datetime.now(UTC), timedelta(0))


def _checked_url(url: str) -> SplitResult:
    def refuse(why: str) -> ConfigError:
        shown = str(url).partition("?")[0]
        # A password in it is not repeated.
        shown = shown.rpartition("@")[2] if "@" in shown else shown
        return ConfigError(f"WebhookSink: url = {shown!r}: {why}")

    if not isinstance(url, str) or not url.isprintable() or " " in url:
        raise refuse("must be a text like https://example.com/hooks/detent")
    try:
        parts = urlsplit(url)
        port = parts.port
    except ValueError as error:
        raise refuse(str(error)) from error
    if parts.scheme not in _SCHEMES:
        raise refuse("must begin with http:// or https://")
    if not parts.hostname or port == 0:
        raise refuse("names no host")
    if parts.username is not None or parts.password is not None:
        raise refuse("holds a user or a password; send them with headers=")
    if not url.isascii():
        raise refuse("must be written in ASCII: encode names and paths")
    return parts


def _checked_headers(headers: Mapping[str, str]) -> dict[str, str]:
    if not isinstance(headers, Mapping):
        raise ConfigError(f"WebhookSink: headers = {headers!r}: must be a dict of texts")
    for name, value in headers.items():
        if not (isinstance(name, str) and isinstance(value, str)):
            raise ConfigError(f"WebhookSink: headers = {name!r}: must be a text with a text")
        if name.lower() in _OURS or name.lower().startswith("x-detent-"):
            raise ConfigError(f"WebhookSink: headers = {name!r}: this one is set by Detent itself")
        plain = name.replace("-", "").replace("_", "")
        if not (plain.isascii() and plain.isalnum() and value.isascii() and value.isprintable()):
            raise ConfigError(f"WebhookSink: headers = {name!r}: must be printable ASCII")
    return dict(headers)
