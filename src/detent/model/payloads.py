"""Stored payloads as values, and what is stored in place of a result that could not be."""

import json
from typing import Any, Final

_DROPPED: Final = b'{"detent":"result dropped","problem":'
LONGEST_PROBLEM: Final = 500


def decoded(data: bytes | None, codec: str = "json") -> Any:
    """Return a payload as values; what cannot be read here is only described."""
    if data is None:
        return None
    try:
        return json.loads(data) if codec == "json" else _unreadable(data, codec)
    except ValueError:
        return _unreadable(data, codec)


def _unreadable(data: bytes, codec: str) -> str:
    return f"<{len(data):,} bytes of {codec}>"


def dropped(problem: str) -> bytes:
    """Return what is stored in place of a result that cannot be."""
    return _DROPPED + json.dumps(problem[:LONGEST_PROBLEM]).encode() + b"}"


def why_dropped(result: bytes | None) -> str | None:
    """Return why a result was not stored; None for one that was."""
    if result is None or not result.startswith(_DROPPED):
        return None
    return str(json.loads(result)["problem"])
