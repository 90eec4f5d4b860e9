"""How values become bytes; a wrapper may encrypt them."""

from typing import Any, Protocol


class Codec(Protocol):
    """Turns plain values into bytes and back. Nothing it decodes can name code to run."""

    name: str
    """Stored with every payload, so that old payloads stay readable."""

    def encode(self, value: Any) -> bytes:
        """Return bytes for a value, or raise `InvalidArguments` with the path to the culprit."""

    def canonical(self, value: Any) -> bytes:
        """Return the same bytes for equal values, in whatever order sets and dicts hold theirs."""

    def decode(self, data: bytes, type_: Any = Any) -> Any:
        """Return the value as `type_`, or raise `InvalidArguments` with the path."""
