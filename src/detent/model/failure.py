"""An exception in words: type, message and traceback, whatever its class does when asked."""

import traceback
from collections.abc import Callable, Sequence
from typing import Final, NamedTuple

from detent.model.text import storable

NAME_LIMIT: Final = 200
MESSAGE_LIMIT: Final = 2_000
TRACEBACK_LIMIT: Final = 16_000
LINE_LIMIT: Final = 500
# What may be read to clean a text of which so much is kept: a secret at the cut is still whole.
_MARGIN: Final = 4

Clean = Callable[[str], str]
"""Takes out of a text what nobody is to see."""


class Failure(NamedTuple):
    """What is kept of an exception."""

    type: str
    message: str
    traceback: str


Sanitizer = Callable[[Failure], Failure]
"""What an application makes of errors before they are kept."""


class Remote:
    """Mixed into exceptions that were raised in another process: they bring their own words."""

    failure: Failure
    never: bool = False
    """Whether it is of a class that its task never retries; only there is the class known."""
    lineage: Sequence[str] = ()
    """The full names of its class, of its bases, and of those it was raised from."""


def failure_of(error: BaseException, clean: Clean | None = None) -> Failure:
    """Return an exception in words; one that cannot even describe itself is described for it."""
    if isinstance(error, Remote):
        told = error.failure
        return Failure(
            told.type,
            kept(told.message, MESSAGE_LIMIT, clean),
            kept(told.traceback, TRACEBACK_LIMIT, clean),
        )
    frames = "".join(traceback.format_exception(type(error), error, error.__traceback__, limit=-20))
    return Failure(
        storable(type(error).__name__, NAME_LIMIT),
        kept(message_of(error), MESSAGE_LIMIT, clean),
        kept(frames, TRACEBACK_LIMIT, clean),
    )


def describe(error: BaseException | None, clean: Clean | None = None) -> str:
    """Return an exception in one line."""
    if error is None:
        return "unknown"
    if isinstance(error, Remote):
        return f"{error.failure.type}: {kept(error.failure.message, LINE_LIMIT, clean)}"
    return f"{type(error).__name__}: {kept(message_of(error), LINE_LIMIT, clean)}"


def kept(text: str, limit: int, clean: Clean | None) -> str:
    """Return what is kept of a text, cleaned before it is cut."""
    return storable(text if clean is None else clean(text[: limit * _MARGIN]), limit)


def message_of(error: BaseException) -> str:
    """Return what an exception says about itself."""
    try:
        return str(error)
    except BaseException as broken:  # noqa: BLE001  a user's __str__ must not lose the failure
        return f"<its message could not be read: {type(broken).__name__}>"
