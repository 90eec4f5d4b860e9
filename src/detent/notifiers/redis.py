"""Wake-ups by the publish/subscribe of Redis or Valkey."""

from collections.abc import Callable, Sequence
from typing import Any, Final

import redis.asyncio
from redis.asyncio.retry import Retry
from redis.backoff import NoBackoff
from redis.exceptions import RedisError

from detent.errors import ConfigError
from detent.notifiers.carried import PATIENCE, CarriedNotifier, Line
from detent.notifiers.endurance import PING, PONG

# What the client knows these servers by; both speak the same.
SCHEMES: Final = {"redis": "redis", "rediss": "rediss", "valkey": "redis", "valkeys": "rediss"}


class RedisNotifier(CarriedNotifier):
    """The `Notifier` on a Redis or Valkey server; schedulers of other channels are not heard."""

    def __init__(self, url: str, channel: str = "detent") -> None:
        scheme, _, rest = url.partition(":")
        self._url = f"{SCHEMES.get(scheme, scheme)}:{rest}"
        self._channel = f"detent:{channel}:wake"
        try:
            self._client()
        except (ValueError, TypeError) as error:
            raise ConfigError(f"[wakeup] url: {error}") from error
        super().__init__(self._open, (RedisError,))

    def _client(self) -> Any:
        # The client's own retries would hide that messages were missed.
        return redis.asyncio.Redis.from_url(
            self._url,
            socket_timeout=PATIENCE,
            socket_connect_timeout=PATIENCE,
            retry=Retry(NoBackoff(), 0),
        )

    async def _open(self) -> Line:
        return _RedisLine(self._client(), self._channel)


class _RedisLine:
    """A client that connects with its first command."""

    def __init__(self, client: Any, channel: str) -> None:
        self._client = client
        self._channel = channel

    async def send(self, messages: Sequence[bytes]) -> None:
        """See `Line.send`."""
        for message in messages:
            await self._client.publish(self._channel, message)

    async def hear(self, receive: Callable[[bytes], None], connected: Callable[[], None]) -> None:
        """See `Line.hear`."""
        async with self._client.pubsub() as subscription:
            await subscription.subscribe(self._channel)
            asked = True
            while True:
                message = await subscription.get_message(timeout=PONG if asked else PING)
                if message is None:
                    if asked:
                        raise TimeoutError
                    await subscription.ping()
                elif message["type"] == "subscribe":
                    connected()
                elif message["type"] == "message":
                    receive(message["data"])
                asked = message is None

    async def close(self) -> None:
        """See `Line.close`."""
        await self._client.aclose()
