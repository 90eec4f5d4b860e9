"""Wake-ups by NATS."""

import asyncio
from collections.abc import Callable, Sequence
from typing import Any, Final

from nats.aio.client import Client
from nats.aio.msg import Msg
from nats.errors import Error

from detent.errors import ConfigError
from detent.notifiers.carried import CarriedNotifier, Line
from detent.notifiers.endurance import PING, PONG

SCHEMES: Final = ("nats", "tls")
# How long one of several servers is waited for.
KNOCK: Final = 2


class NatsNotifier(CarriedNotifier):
    """The `Notifier` on a NATS server, or on a cluster of them: `nats://one:4222,two:4222`."""

    def __init__(self, url: str, channel: str = "detent") -> None:
        self._servers = servers_in(url)
        self._subject = f"detent.{channel}.wake"
        super().__init__(self._open, (Error,))

    async def _open(self) -> Line:
        client = Client()
        line = _NatsLine(client, self._subject)
        try:
            await client.connect(
                servers=list(self._servers),
                name="detent",
                # The client's own reconnection would hide that messages were missed.
                allow_reconnect=False,
                connect_timeout=KNOCK,
                max_reconnect_attempts=1,
                reconnect_time_wait=0,
                error_cb=_ignore,
                closed_cb=line.on_closed,
            )
        except BaseException:
            await client.close()
            raise
        return line


class _NatsLine:
    """A connected client."""

    def __init__(self, client: Client, subject: str) -> None:
        self._client = client
        self._subject = subject
        self._closed = asyncio.Event()
        self._heard = False

    async def on_closed(self) -> None:
        """Be told that the client has given up."""
        self._closed.set()

    async def send(self, messages: Sequence[bytes]) -> None:
        """See `Line.send`."""
        for message in messages:
            await self._client.publish(self._subject, message)
        await self._client.flush()

    async def hear(self, receive: Callable[[bytes], None], connected: Callable[[], None]) -> None:
        """See `Line.hear`."""

        async def on_message(message: Msg) -> None:
            receive(message.data)

        await self._client.subscribe(self._subject, cb=on_message)
        # Before its answer the server may not know yet that we listen.
        await self._flush()
        connected()
        while not self._closed.is_set():
            try:
                async with asyncio.timeout(PING):
                    await self._closed.wait()
            except TimeoutError:
                await self._flush()

    async def _flush(self) -> None:
        async with asyncio.timeout(PONG):
            await self._client.flush()

    async def close(self) -> None:
        """See `Line.close`."""
        await self._client.close()


def servers_in(url: str) -> list[str]:
    """Return the servers that a URL names, each as a URL of its own."""
    scheme, _, rest = url.partition("://")
    hosts = [host.strip().removeprefix(f"{scheme}://") for host in rest.split(",")]
    if scheme not in SCHEMES or not all(hosts):
        raise ConfigError(f"[wakeup] url = {url!r}: must be such as nats://host:4222")
    return [f"{scheme}://{host}" for host in hosts]


async def _ignore(_error: Any) -> None:
    """Let it pass: whoever called was told, or the connection will be closed."""
