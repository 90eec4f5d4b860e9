"""Owns the connections of one thread, and gives them up for the moment of a fork.

SQLite remembers for each file which locks its process holds. A child inherits that memory but not
the locks: with a connection that was open at the fork in its memory, it would believe to hold
locks that it has not, or find one held for ever that its parent gave back long ago. So before a
fork every thread comes to rest and its connections are closed; afterwards each opens them again
when it needs them.

It also knows which file they are open on: one that was deleted or replaced can still be read and
written, but what is written there is lost.
"""

import os
import sqlite3
import threading
import weakref
from collections.abc import Callable
from types import TracebackType
from typing import Final, Self

from detent.errors import StoreUnavailable

Identity = tuple[int, int] | None


def identity_of(path: str) -> Identity:
    """Return the device and the number of a file; None when there is none."""
    try:
        found = os.stat(path)  # noqa: PTH116  twice as fast, and asked for every batch
    except OSError:
        return None
    return found.st_dev, found.st_ino


class Keeper:
    """Opens connections by name when they are needed; to be used as `with keeper: ...` only."""

    def __init__(self, path: str) -> None:
        self.path = path
        self._file: Identity = None
        self._lock = threading.Lock()
        self._open: dict[str, sqlite3.Connection] = {}
        _keepers.add(self)

    def __enter__(self) -> Self:
        self._lock.acquire()
        return self

    def __exit__(
        self,
        error_type: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._lock.release()

    def connection(self, name: str, make: Callable[[], sqlite3.Connection]) -> sqlite3.Connection:
        """Return the connection of this name; a new one, if it is not open."""
        found = self._open.get(name)
        if found is None:
            made = make()
            if not self._open:
                self._file = identity_of(self.path)
            found = self._open[name] = made
        return found

    @property
    def is_replaced(self) -> bool:
        """Whether connections are open on another file than the one that is there."""
        return bool(self._open) and identity_of(self.path) != self._file

    def check(self) -> None:
        """Raise `StoreUnavailable` if they are; the caller closes them."""
        if self.is_replaced:
            raise StoreUnavailable(
                f"{self.path} was deleted or replaced while it was open; what is there now is "
                "opened instead. Stop all programs before the file is exchanged"
            )

    def close(self) -> None:
        """Close everything; what is not committed is undone."""
        while self._open:
            self._open.popitem()[1].close()

    def rest(self) -> None:
        """Wait until nothing is being done with the connections, and close them."""
        self._lock.acquire()
        self.close()

    def wake(self) -> None:
        """Let things be done again."""
        self._lock.release()

    def forget(self) -> None:
        """Begin anew in a child: whoever used this is not here."""
        self._lock = threading.Lock()


_keepers: Final["weakref.WeakSet[Keeper]"] = weakref.WeakSet()
_resting: Final[list[Keeper]] = []


def _before_fork() -> None:
    for keeper in sorted(_keepers, key=id):
        keeper.rest()
        _resting.append(keeper)


def _after_in_parent() -> None:
    while _resting:
        _resting.pop().wake()


def _after_in_child() -> None:
    while _resting:
        _resting.pop().forget()


os.register_at_fork(
    before=_before_fork, after_in_parent=_after_in_parent, after_in_child=_after_in_child
)
