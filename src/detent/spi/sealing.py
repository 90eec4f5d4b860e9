"""Encryption of what is stored: where keys come from, and who seals and opens with them."""

from enum import StrEnum
from typing import NamedTuple, Protocol
from uuid import UUID


class Surface(StrEnum):
    """The places of a job that can be sealed; what was made for one does not open in another."""

    ARGS = "args"
    PARAMS = "params"
    RESULT = "result"
    ERROR = "error"
    SIGNAL = "signal"
    DIGEST = "digest"
    """What the arguments come to; kept beside an idempotency key."""
    SCHEDULE_ARGS = "schedule args"
    SCHEDULE_PARAMS = "schedule params"
    """What a schedule makes jobs from; bound to its name (`place_of`), and sealed anew for each."""


class Key(NamedTuple):
    """A key and the id under which it is found again."""

    id: str
    secret: bytes
    """32 bytes."""

    def __repr__(self) -> str:
        return f"Key(id={self.id!r}, secret=***)"


class KeyProvider(Protocol):
    """Where keys come from: settings, or a service that keeps them.

    It may be slow: what it says is kept for a while. Whatever it raises, and its silence, count as
    not being there at the moment: `KeyUnavailable` for those who enqueue, a delay without charge
    for jobs that were to run.
    """

    async def current(self) -> Key:
        """Return the key to seal with from now on."""

    async def find(self, key_id: str) -> Key | None:
        """Return the key of an id, also one that is no longer current; None if there is none."""


class Sealer(Protocol):
    """Seals with one key that is there already: it never waits."""

    def seal(self, surface: Surface, job_id: UUID, data: bytes) -> bytes:
        """Return an envelope around the bytes."""


class Sealing(Protocol):
    """Seals and opens the values of one app."""

    def covers(self, encrypted: bool | None) -> bool:
        """Whether the jobs of a task are sealed that was declared like this; None says nothing."""

    def ready(self) -> Sealer | None:
        """Return what seals with the current key, if that is known without waiting."""

    async def sealer(self) -> Sealer:
        """Return what seals with the current key, or raise `KeyUnavailable`."""

    async def opened(self, surface: Surface, job_id: UUID, data: bytes) -> bytes:
        """Return what is in an envelope, or raise a `SealError` that says what is wrong."""
