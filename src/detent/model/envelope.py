"""What an encrypted value looks like in a column, so that it can be told from all others.

    NUL "det"   4 bytes that no JSON begins with
    version     1 byte; 1 is the only one
    algorithm   1 byte; 1 is AES-256-GCM
    length      1 byte: that of the key's id
    key id      which key opens it
    nonce       12 bytes, never used twice with one key
    body        the ciphertext, and 16 bytes that prove that nothing was altered

All in front of the nonce is the head. It is proved along with the place that the value was made
for (`bound_to`), so an envelope can be neither altered nor moved.
"""

from typing import Final, NamedTuple
from uuid import UUID, uuid5

MARKER: Final = b"\0det"
VERSION: Final = 1
AES_256_GCM: Final = 1
NONCE: Final = 12
PROOF: Final = 16
_FRONT: Final = len(MARKER) + 3
_SCHEDULES: Final = UUID("5b0c1f4e-6d0a-4b7e-9a55-0e1c5a7d2f31")


class Envelope(NamedTuple):
    """An encrypted value, taken apart."""

    version: int
    algorithm: int
    key_id: str
    nonce: bytes
    body: bytes
    head: bytes


def is_sealed(data: bytes | None) -> bool:
    """Whether stored bytes are an envelope."""
    return data is not None and data.startswith(MARKER)


def head_of(key_id: str) -> bytes:
    """Return how an envelope begins that is made now with this key."""
    name = key_id.encode()
    return MARKER + bytes((VERSION, AES_256_GCM, len(name))) + name


def read_envelope(data: bytes) -> Envelope:
    """Take an envelope apart, or raise `ValueError` when it cannot be one.

    One of another version has no parts that we could know but that.
    """
    if not is_sealed(data) or len(data) < _FRONT:
        raise ValueError("it is no envelope, or only the beginning of one")
    version, algorithm, length = data[len(MARKER) : _FRONT]
    if version != VERSION or algorithm != AES_256_GCM:
        return Envelope(version, algorithm, "", b"", b"", b"")
    head = data[: _FRONT + length]
    nonce = data[len(head) : len(head) + NONCE]
    body = data[len(head) + NONCE :]
    if len(head) != _FRONT + length or len(body) < PROOF:
        raise ValueError("it is only the beginning of an envelope")
    try:
        return Envelope(version, algorithm, head[_FRONT:].decode(), nonce, body, head)
    except UnicodeDecodeError as error:
        raise ValueError("the id of its key cannot be read") from error


def bound_to(head: bytes, surface: str, job_id: UUID) -> bytes:
    """Return what an envelope is tied to: its own head, one surface of one job."""
    return b"\0".join((head, surface.encode(), job_id.bytes))


def place_of(schedule: str) -> UUID:
    """Return what stands for the job's id in what a schedule keeps: it has none, but a name."""
    return uuid5(_SCHEDULES, schedule)


def shown_as(data: bytes) -> str:
    """Return what people see of an envelope that cannot be opened here."""
    try:
        envelope = read_envelope(data)
    except ValueError:
        return "<encrypted, and damaged>"
    if envelope.head:
        return f"<encrypted with key {envelope.key_id}>"
    return f"<encrypted by newer code, version {envelope.version}.{envelope.algorithm}>"
