"""Wake-ups as they are written to the file."""

from collections.abc import Sequence
from typing import Final

from detent.notifiers import wire
from detent.notifiers.news import News
from detent.notifiers.wire import decode
from detent.spi.notifier import Wake

__all__ = ["MOST", "News", "decode", "encode"]

# More than this many lanes at once are told as "look for yourself".
MOST: Final = 100


def encode(wakes: Sequence[Wake]) -> str:
    """Return wake-ups as a payload; an empty one tells listeners to look for themselves."""
    return wire.encode(wakes if len(wakes) <= MOST else ())
