"""An exception in words: type, message and traceback, whatever its class does when asked."""

import traceback
from typing import Final, NamedTuple

from detent.model.text import storable

NAME_LIMIT: Final = 200
MESSAGE_LIMIT: Final = 2_000
TRACEBACK_LIMIT: Final = 16_000


class Failure(NamedTuple):
    """What is kept of an exception."""

    type: str
    message: str
    traceback: str


class Remote:
    """Mixed into exceptions that were raised in another process: they bring their own words."""

    failure: Failure
    never: bool = False
    """Whether it is of a class that its task never retries; only there is the class known."""


def failure_of(error: BaseException) -> Failure:
    """Return an exception in words; one that cannot even describe itself is described for it."""
    if isinstance(error, Remote):
        return error.failure
    frames = "".join(traceback.format_exception(type(error), error, error.__traceback__, limit=-20))
    return Failure(
        storable(type(error).__name__, NAME_LIMIT),
        storable(message_of(error), MESSAGE_LIMIT),
        storable(frames, TRACEBACK_LIMIT),
    )


def describe(error: BaseException | None) -> str:
    """Return an exception in one line."""
    if error is None:
        return "unknown"
    if isinstance(error, Remote):
        return f"{error.failure.type}: {storable(error.failure.message, 500)}"
    return f"{type(error).__name__}: {storable(message_of(error), 500)}"


def message_of(error: BaseException) -> str:
    """Return what an exception says about itself."""
    try:
        return str(error)
    except BaseException as broken:  # noqa: BLE001  a user's __str__ must not lose the failure
        return f"<its message could not be read: {type(broken).__name__}>"
