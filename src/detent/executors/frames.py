"""What a node and its child processes say to each other: bytes with a length, never objects.

A frame is four bytes with the length of the rest, one byte with its kind, four bytes with the
length of its head, the head as JSON, and then bytes that are handed on as they are: arguments or
a result. Nothing in it can name code but the name of a task and the modules that declare it, and
those only the node says.
"""

import struct
from collections.abc import Iterator
from datetime import datetime
from enum import IntEnum
from typing import Annotated, Any, Final, Literal, NamedTuple
from uuid import UUID

import msgspec

_FRONT: Final = struct.Struct(">IBI")
_LENGTH: Final = 4
_SHORTEST: Final = _FRONT.size - _LENGTH


class Kind(IntEnum):
    """Who says what."""

    # The node:
    SETUP = 1
    LOAD = 2
    RUN = 3
    CANCEL = 4
    STOP = 5
    # The child. Each of the first three orders is answered by one of the next three:
    READY = 10
    DONE = 11
    RAISED = 12
    PROGRESS = 13
    LOG = 14
    HEARTBEAT = 15


class Setup(msgspec.Struct, array_like=True):
    """How the child becomes like its parent."""

    path: list[str]
    argv: list[str]
    main_path: str | None
    main_name: str | None
    parent: int
    max_result: int
    max_log_line: int


class Load(msgspec.Struct, array_like=True):
    """Import the modules that declare a task."""

    task: str
    modules: list[str]


class Run(msgspec.Struct, array_like=True):
    """Run a job; its arguments follow the head."""

    task: str
    job_id: UUID
    queue: str
    attempt: int
    generation: int
    fence: int
    node_id: UUID
    deadline: datetime | None
    codec: str
    params: dict[str, Any]
    tags: list[str]
    principal: str | None = None
    schedule: str | None = None
    slot: datetime | None = None


class Cancel(msgspec.Struct, array_like=True):
    """Stop the job: why, and what somebody said about it."""

    cause: str
    reason: str | None


class Done(msgspec.Struct, array_like=True):
    """The function has returned; its result follows the head, unless it is None."""

    problem: str | None
    """Why the result could not be encoded."""
    memory: int
    """The most bytes of memory that the child has used so far."""


class Raised(msgspec.Struct, array_like=True):
    """The function, or importing its module, has raised."""

    sort: Literal["error", "fail", "retry_after", "snooze", "canceled"]
    type_name: str
    type: str
    message: str
    traceback: str
    never: bool
    wait: float = 0.0
    reason: str | None = None
    lineage: list[str] = []
    """The full names of the classes that it, or what it was raised from, is of."""


class Progress(msgspec.Struct, array_like=True):
    """How far the job is."""

    fraction: Annotated[float, msgspec.Meta(ge=0, le=1)]
    message: str | None


class Line(msgspec.Struct, array_like=True):
    """A line that is to be kept with the job."""

    level: Literal["debug", "info", "warning", "error"]
    message: str


Head = Setup | Load | Run | Cancel | Done | Raised | Progress | Line | None


class Frame(NamedTuple):
    """One frame as it was received."""

    kind: Kind
    head: Any
    payload: bytes


_HEADS: Final = {
    Kind.SETUP: Setup,
    Kind.LOAD: Load,
    Kind.RUN: Run,
    Kind.CANCEL: Cancel,
    Kind.STOP: None,
    Kind.READY: None,
    Kind.DONE: Done,
    Kind.RAISED: Raised,
    Kind.PROGRESS: Progress,
    Kind.LOG: Line,
    Kind.HEARTBEAT: None,
}
_KINDS: Final = {
    int(kind): (kind, msgspec.json.Decoder(head).decode) for kind, head in _HEADS.items()
}
_encode: Final = msgspec.json.Encoder().encode


class Garbled(ValueError):
    """Bytes that are no frame."""


def pack(kind: Kind, head: Head = None, payload: bytes = b"") -> bytes:
    """Return a frame as bytes."""
    text = _encode(head)
    return _FRONT.pack(_SHORTEST + len(text) + len(payload), kind, len(text)) + text + payload


class Unpacker:
    """Takes bytes as they come and gives frames, none of them longer than a limit."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._buffer = bytearray()

    def feed(self, data: bytes) -> Iterator[Frame]:
        """Yield the frames that are complete now, or raise `Garbled`."""
        buffer = self._buffer
        buffer += data
        while len(buffer) >= _FRONT.size:
            length, kind, head = _FRONT.unpack_from(buffer)
            if not _SHORTEST + head <= length <= self._limit or kind not in _KINDS:
                raise Garbled(f"a frame of kind {kind} with {length:,} bytes, {head:,} in its head")
            end = _LENGTH + length
            if len(buffer) < end:
                return
            body = bytes(buffer[_FRONT.size : end])
            del buffer[:end]
            yield _read(kind, body[:head], body[head:])


def _read(kind: int, head: bytes, payload: bytes) -> Frame:
    known, decode = _KINDS[kind]
    try:
        return Frame(known, decode(head), payload)
    except (msgspec.MsgspecError, UnicodeDecodeError) as error:
        raise Garbled(f"a frame of kind {known.name} with the wrong head: {error}") from error
