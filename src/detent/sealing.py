"""AES-256-GCM around stored values, with the keys that a provider hands out.

The library `cryptography` comes with the extra `encryption`; this module is imported only where
somebody uses it.
"""

import asyncio
import math
import os
from collections.abc import Awaitable, Callable, Sequence
from datetime import timedelta
from typing import Final, TypeVar
from uuid import UUID

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM

from detent.errors import KeyMissing, KeyUnavailable, SealBroken, SealTooNew
from detent.model.envelope import (
    AES_256_GCM,
    NONCE,
    VERSION,
    Envelope,
    bound_to,
    head_of,
    read_envelope,
)
from detent.spi.sealing import Key, KeyProvider, Surface

KEY_SIZE: Final = 32
MAX_KEY_ID: Final = 64

T = TypeVar("T")


class AesSealer:
    """Seals with one key."""

    def __init__(self, key: Key) -> None:
        self._head = head_of(key.id)
        self._cipher = AESGCM(key.secret)

    def seal(self, surface: Surface, job_id: UUID, data: bytes) -> bytes:
        """See `Sealer.seal`."""
        nonce = os.urandom(NONCE)
        body = self._cipher.encrypt(nonce, data, bound_to(self._head, surface, job_id))
        return self._head + nonce + body

    def open(self, envelope: Envelope, surface: Surface, job_id: UUID) -> bytes:
        """Return what is in an envelope that was sealed with this key."""
        bond = bound_to(envelope.head, surface, job_id)
        try:
            return self._cipher.decrypt(envelope.nonce, envelope.body, bond)
        except InvalidTag as error:
            raise SealBroken(
                f"the encrypted {surface} of job {job_id} were altered, or made for another place, "
                f"or the key {envelope.key_id!r} is not the one that sealed them"
            ) from error


class AesSealing:
    """Seals and opens for one app, with keys of its own or those of a provider.

    Own keys are known from the beginning, the current one first. A provider says which key is
    current, and knows others; what it says is kept for `keep`.
    """

    def __init__(
        self,
        *,
        keys: Sequence[Key] = (),
        provider: KeyProvider | None = None,
        everything: bool,
        keep: timedelta,
        patience: timedelta,
        monotonic: Callable[[], float],
    ) -> None:
        self._provider = provider
        self._everything = everything
        self._keep = keep.total_seconds()
        self._patience = patience.total_seconds()
        self._monotonic = monotonic
        self._known: dict[str | None, tuple[float, AesSealer]] = {}
        """By the id of the key, None for the current one: until when, and the sealer itself."""
        for key in keys:
            entry = self._known[key.id] = (math.inf, AesSealer(key))
            if provider is None:
                self._known.setdefault(None, entry)
        self._asked: dict[tuple[int, str | None], asyncio.Task[AesSealer]] = {}
        """What each event loop is asking for at this moment: a thousand jobs ask once."""

    def covers(self, encrypted: bool | None) -> bool:
        """See `Sealing.covers`."""
        return self._everything if encrypted is None else encrypted

    def ready(self) -> AesSealer | None:
        """See `Sealing.ready`."""
        known = self._known.get(None)
        return None if known is None or known[0] <= self._monotonic() else known[1]

    async def sealer(self) -> AesSealer:
        """See `Sealing.sealer`."""
        return await self._sealer_of(None)

    async def opened(self, surface: Surface, job_id: UUID, data: bytes) -> bytes:
        """See `Sealing.opened`."""
        try:
            envelope = read_envelope(data)
        except ValueError as error:
            raise SealBroken(f"the encrypted {surface} of job {job_id}: {error}") from error
        if (envelope.version, envelope.algorithm) != (VERSION, AES_256_GCM):
            raise SealTooNew(
                f"the {surface} of job {job_id} are encrypted in version {envelope.version} with "
                f"algorithm {envelope.algorithm}; this code knows {VERSION} with {AES_256_GCM}"
            )
        return (await self._sealer_of(envelope.key_id)).open(envelope, surface, job_id)

    async def _sealer_of(self, key_id: str | None) -> AesSealer:
        known = self._known.get(key_id)
        if known is not None and known[0] > self._monotonic():
            return known[1]
        place = (id(asyncio.get_running_loop()), key_id)
        task = self._asked.get(place)
        if task is None:
            task = self._asked[place] = asyncio.ensure_future(self._ask(key_id))
            task.add_done_callback(lambda done: self._answered(place, done))
        # One that gives up must not take the answer away from the others.
        return await asyncio.shield(task)

    def _answered(self, place: tuple[int, str | None], done: "asyncio.Task[AesSealer]") -> None:
        self._asked.pop(place, None)
        if not done.cancelled():
            done.exception()  # seen, also when nobody waits for it any more

    async def _ask(self, key_id: str | None) -> AesSealer:
        provider = self._provider
        if provider is None:
            raise KeyMissing(key_id or "current")
        if key_id is None:
            key: Key | None = await self._answer(provider.current)
        else:
            key = await self._answer(lambda: provider.find(key_id))
            if key is None:
                raise KeyMissing(key_id)
        key = check_key(key)
        if key_id not in (None, key.id):
            # With this one all that the other has sealed would look as if it had been altered.
            raise KeyUnavailable(f"the provider of keys returned {key.id!r} for {key_id!r}")
        sealer = AesSealer(key)
        self._known[key_id] = (self._monotonic() + self._keep, sealer)
        return sealer

    async def _answer(self, ask: Callable[[], Awaitable[T]]) -> T:
        try:
            async with asyncio.timeout(self._patience):
                return await ask()
        except TimeoutError as error:
            raise KeyUnavailable(
                f"the provider of keys has not answered after {self._patience:g} s"
            ) from error
        except (Exception, asyncio.CancelledError) as error:
            # What it awaits may have been canceled: that is its trouble, unless we are to end.
            task = asyncio.current_task()
            if isinstance(error, asyncio.CancelledError) and task is not None and task.cancelling():
                raise
            raise KeyUnavailable(
                f"the provider of keys does not answer: {type(error).__name__}"
            ) from error


def check_key(key: object) -> Key:
    """Return a key as it has to be; one that is not is as good as none. Its secret is not told."""
    if not isinstance(key, Key):
        raise KeyUnavailable(f"the provider of keys returned a {type(key).__name__}, not a Key")
    if not isinstance(key.id, str) or not 1 <= len(key.id.encode()) <= MAX_KEY_ID:
        raise KeyUnavailable(f"the provider of keys returned the id {key.id!r}: 1 to 64 bytes")
    if not isinstance(key.secret, bytes) or len(key.secret) != KEY_SIZE:
        raise KeyUnavailable(f"the key {key.id!r} of the provider has not {KEY_SIZE} bytes")
    return key
