"""Sends events by HTTP, signed, one POST each."""

import asyncio
import json
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta
from email.utils import parsedate_to_datetime
from typing import Final
from urllib.parse import SplitResult, urlsplit

from detent.errors import ConfigError, DeliveryFailed
from detent.sinks.client import HttpClient
from detent.sinks.signature import SIGNATURE, TIMESTAMP, Secret, checked_secrets, sign
from detent.spi.outbox import AlertInfo, OutboxEvent
from detent.spi.sinks import document
from detent.version import __version__

DEFAULT_TIMEOUT: Final = 10.0
# These say "not now"; any other 4xx says "not this".
_LATER: Final = (408, 425, 429)
_SCHEMES: Final = ("http", "https")
_SHOWN: Final = 200
_OURS: Final = (
    "connection",
    "content-length",
    "content-type",
    "host",
    "transfer-encoding",
    "user-agent",
)


class WebhookSink:
    """A sink that posts JSON to a URL, over connections that stay open.

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
        self._client = HttpClient(self._url)
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
        try:
            async with asyncio.timeout(self.timeout):
                answer = await self._client.post(body, headers)
        except TimeoutError as error:
            raise DeliveryFailed(f"TimeoutError: no answer within {self.timeout:g} s") from error
        except OSError as error:
            raise DeliveryFailed(f"{type(error).__name__}: {error}") from error
        _judge(answer.status, answer.body[:_SHOWN], answer.headers.get("retry-after"))

    async def close(self) -> None:
        """Close the connections that are kept open; the next delivery opens one again."""
        await self._client.close()


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
