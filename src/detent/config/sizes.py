"""Amounts of memory as people write them: `"64kB"`, `"512MB"`, `"2GB"`.

As in PostgreSQL's settings, the units are powers of 1024 bytes; `MiB` is the same as `MB`.
"""

import re
from typing import Final

_UNITS: Final = {"B": 1, "kB": 1 << 10, "MB": 1 << 20, "GB": 1 << 30, "TB": 1 << 40}
_BY_LETTER: Final = {unit[0].lower(): size for unit, size in _UNITS.items()}
_TEXT: Final = re.compile(r"([0-9]{1,15}(?:\.[0-9]{1,9})?)\s*(?:([bkmgt])(?:i?b)?)?", re.IGNORECASE)
_EXAMPLES: Final = 'must be an amount of memory such as "64kB", "512MB" or "2GB"'


def parse_size(value: object) -> int:
    """Return the bytes that a text or a number says; a bare number is bytes.

    Anything else raises a `ValueError` that says what would be valid.
    """
    if isinstance(value, int) and not isinstance(value, bool):
        return value
    found = _TEXT.fullmatch(value.strip()) if isinstance(value, str) else None
    if found is None:
        raise ValueError(_EXAMPLES)
    return int(float(found[1]) * _BY_LETTER[(found[2] or "b").lower()])


def format_size(value: int) -> str:
    """Return an amount in the largest unit that leaves something before the point."""
    unit, size = next((pair for pair in reversed(_UNITS.items()) if value >= pair[1]), ("B", 1))
    number = f"{value / size:.1f}".removesuffix(".0")
    return f"{number}{unit}"
