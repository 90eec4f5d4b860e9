"""Errors as they are stored: type, message and traceback, whatever the task raised."""

import msgspec

from detent.model.failure import failure_of


def encode_error(error: BaseException) -> bytes:
    """Return an exception as JSON."""
    return msgspec.json.encode(failure_of(error)._asdict())
