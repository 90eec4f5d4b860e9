"""When an event is offered again to a sink that did not take it."""

from datetime import timedelta
from typing import Final

FIRST: Final = timedelta(seconds=1)
LONGEST: Final = timedelta(hours=1)
# What a receiver may ask for at most.
PATIENCE: Final = timedelta(days=1)
# A receiver that says it does not want an event may only be misconfigured for a moment.
REFUSALS: Final = 3


def next_delay(
    tries: int,
    max_attempts: int,
    share: float,
    *,
    refused: bool = False,
    asked: timedelta | None = None,
) -> timedelta | None:
    """Return how long to wait after so many tries, or None when it was the last.

    The pauses double; `share`, a random number from a half to one, keeps many from coming back at
    the same time. `asked` is what the receiver wants to be left alone for.
    """
    if tries >= (min(REFUSALS, max_attempts) if refused else max_attempts):
        return None
    pause: timedelta = min(FIRST * 2 ** min(tries - 1, 20), LONGEST) * share
    return max(pause, min(asked, PATIENCE)) if asked is not None else pause
