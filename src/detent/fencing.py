"""Fences transactions of people by a term, whatever library their connection comes from."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Final

from detent.connections import join, join_sync
from detent.errors import WrongConnection
from detent.spi.leadership import LeaderStore, Term

# What is said of connections names the option that most of them are given to.
_WORDS: Final = {
    "within=": "fenced()",
    "enqueue_sync()": "fenced_sync()",
    "await ...enqueue()": "await ...fenced()",
}


class Fencing:
    """What `ctx.fenced()` and `leadership.fenced()` do: a `TermFence`."""

    def __init__(self, store: LeaderStore) -> None:
        self._store = store

    async def fence_within(self, connection: Any, term: Term) -> None:
        """See `TermFence.fence_within`."""
        with _in_other_words():
            await join(
                connection,
                lambda driver: self._store.fence_within(driver, term),
                lambda driver: self._store.fence_within_sync(driver, term),
            )

    def fence_within_sync(self, connection: Any, term: Term) -> None:
        """See `TermFence.fence_within_sync`."""
        with _in_other_words():
            join_sync(
                connection,
                lambda driver: self._store.fence_within(driver, term),
                lambda driver: self._store.fence_within_sync(driver, term),
            )


@contextmanager
def _in_other_words() -> Iterator[None]:
    try:
        yield
    except WrongConnection as error:
        message = str(error)
        for word, ours in _WORDS.items():
            message = message.replace(word, ours)
        raise WrongConnection(message) from error
