"""How values look in the database: ids as bytes, times as microseconds, batches as few values.

A batch crosses into SQLite as one JSON array and one or two blobs, and comes back as one JSON
array. Row by row, each would cost a turn at Python's lock while the file is locked for everybody.
"""

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any, Final, TypeVar
from uuid import UUID, SafeUUID

import msgspec

from detent.errors import StoreError
from detent.spi.leadership import NO_TERM, Term

T = TypeVar("T")

_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND: Final = timedelta(microseconds=1)
_new: Final = object.__new__
_set: Final = object.__setattr__
MICROSECONDS: Final = 1_000_000
LAST_MOMENT: Final = (datetime.max.replace(tzinfo=UTC) - _EPOCH) // _MICROSECOND
NO_ID: Final = bytes(16)
# No single value may come near SQLite's limit of a gigabyte.
PIECE: Final = 32 << 20

# In SQLite's JSON a NUL silently ends a text. Not the letters of one, behind an escaped backslash.
_NUL: Final = re.compile(r"(?<!\\)(?:\\\\)*\\u0000")
_decode: Final = msgspec.json.Decoder(list[Any]).decode


def micros(moment: datetime) -> int:
    """Return a moment as microseconds since 1970."""
    return (moment - _EPOCH) // _MICROSECOND


def micros_or_none(moment: datetime | None) -> int | None:
    """Return a moment, if there is one, as microseconds since 1970."""
    return None if moment is None else micros(moment)


def moment(microseconds: int) -> datetime:
    """Return the moment that microseconds since 1970 mean."""
    return _EPOCH + timedelta(microseconds=microseconds)


def moment_or_none(microseconds: int | None) -> datetime | None:
    """Return a moment, if there is one."""
    return None if microseconds is None else moment(microseconds)


def span(length: timedelta) -> int:
    """Return a length of time in microseconds, no longer than what can be added to a moment."""
    return max(min(length // _MICROSECOND, LAST_MOMENT), -LAST_MOMENT)


def seconds(length: float) -> int:
    """Return a length of time, given in seconds, in microseconds."""
    return int(max(min(length * MICROSECONDS, LAST_MOMENT), -LAST_MOMENT))


def uuid(text: str) -> UUID:
    """Return the id that hexadecimal digits mean."""
    # As UUID(hex=text) does it, without looking for braces and hyphens: claims are many.
    made = _new(UUID)
    _set(made, "int", int(text, 16))
    _set(made, "is_safe", SafeUUID.unknown)
    return made


def uuid_or_none(data: bytes | None) -> UUID | None:
    """Return the id that sixteen bytes mean, if there is one."""
    return None if data is None else UUID(bytes=data)


def packed(ids: Iterable[UUID]) -> bytes:
    """Return ids as one blob."""
    return b"".join([job_id.bytes for job_id in ids])


def data(text: str | None) -> bytes | None:
    """Return the bytes that hexadecimal digits mean, if there are some."""
    return None if text is None else bytes.fromhex(text)


def written(value: Any) -> str:
    """Return plain values as JSON."""
    try:
        text = msgspec.json.encode(value).decode()
    except UnicodeEncodeError as error:
        raise StoreError(f"SQLite cannot store {error.object!r}: {error.reason}") from error
    if "\\u0000" in text and _NUL.search(text):
        raise StoreError("SQLite cannot store a text with a NUL")
    return text


def whole(text: str) -> str:
    """Return a text that comes back as it was stored, or raise `StoreError`."""
    if "\0" in text:
        raise StoreError(f"SQLite cannot store {text!r}: it has a NUL")
    return text


def read(text: str | bytes) -> list[Any]:
    """Return the array that a JSON text means."""
    return _decode(text)


class Payloads:
    """Opaque bytes of a batch in one blob; each is known by where it begins and how long it is."""

    __slots__ = ("_length", "_parts")

    def __init__(self) -> None:
        self._parts: list[bytes] = []
        self._length = 0

    def add(self, part: bytes | None) -> tuple[int, int | None]:
        """Return where a part begins, counted from 1, and its length; None for no part at all."""
        if part is None:
            return 1, None
        start = self._length + 1
        self._parts.append(part)
        self._length += len(part)
        return start, len(part)

    def blob(self) -> bytes:
        """Return them all."""
        return b"".join(self._parts)


def pieces(values: Iterable[T], size: Callable[[T], int]) -> Iterator[list[T]]:
    """Yield values in pieces whose sizes add up to what one value of the database can hold."""
    piece: list[T] = []
    total = 0
    for value in values:
        length = size(value)
        if piece and total + length > PIECE:
            yield piece
            piece, total = [], 0
        piece.append(value)
        total += length
    if piece:
        yield piece


def chunks(values: Sequence[Any], size: int) -> list[Sequence[Any]]:
    """Return a sequence in pieces of at most `size`."""
    return [values[start : start + size] for start in range(0, len(values), size)]


def term_values(term: Term | None) -> tuple[str | None, int | None, bytes | None]:
    """Return a term as statements take it; all None for those who need none."""
    return NO_TERM if term is None else (term.role, term.number, term.holder.bytes)
