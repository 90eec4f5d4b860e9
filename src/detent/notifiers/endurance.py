"""Listening for ever: without it a lost connection would leave a node to its polls, unsaid."""

import asyncio
import random
from collections.abc import Awaitable, Callable
from typing import Final

from detent.spi.notifier import Receive, Silence

# A connection on which nothing came for so long is asked whether it is still one; an answer that
# does not come in time means that it is not. Together they bound how long a listener can be deaf
# without knowing it.
PING: Final = 8.0
PONG: Final = 5.0
FIRST_PAUSE: Final = 0.1
LONGEST_PAUSE: Final = 10.0

Session = Callable[[Callable[[], None]], Awaitable[None]]
"""Connects, calls what it is given when wake-ups arrive from then on, and ends with the connection:
by returning, or by an error."""


async def listen_for_ever(
    session: Session, receive: Receive, errors: tuple[type[BaseException], ...]
) -> None:
    """Run one session after the other, with growing pauses while none comes about."""
    pause = FIRST_PAUSE
    told = False

    def connected() -> None:
        nonlocal pause, told
        pause, told = FIRST_PAUSE, False
        # Whatever was sent before has to be looked for.
        receive(())

    while True:
        try:
            await session(connected)
            reason = "the connection was closed"
        except errors as error:
            reason = _words(error)
        if not told:
            told = True
            receive((Silence(reason),))
        await asyncio.sleep(pause * random.uniform(0.5, 1.0))
        pause = min(pause * 2, LONGEST_PAUSE)


def _words(error: BaseException) -> str:
    """Return what an error says, in one line."""
    text = str(error).strip().partition("\n")[0]
    return text or ("no answer" if isinstance(error, TimeoutError) else type(error).__name__)
