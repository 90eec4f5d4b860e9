"""Errors as they are stored: type, message and traceback, whatever the task raised."""

import traceback
from typing import Final

import msgspec

from detent.model.text import storable

MESSAGE_LIMIT: Final = 2_000
TRACEBACK_LIMIT: Final = 16_000


def encode_error(error: BaseException) -> bytes:
    """Return an exception as JSON; one that cannot even describe itself is described for it."""
    frames = "".join(traceback.format_exception(type(error), error, error.__traceback__, limit=-20))
    return msgspec.json.encode(
        {
            "type": type(error).__name__,
            "message": storable(_message(error), MESSAGE_LIMIT),
            "traceback": storable(frames, TRACEBACK_LIMIT),
        }
    )


def describe(error: BaseException | None) -> str:
    """Return an exception in one line."""
    if error is None:
        return "unknown"
    return f"{type(error).__name__}: {storable(_message(error), 500)}"


def _message(error: BaseException) -> str:
    try:
        return str(error)
    except BaseException as broken:  # noqa: BLE001  a user's __str__ must not lose the failure
        return f"<its message could not be read: {type(broken).__name__}>"
