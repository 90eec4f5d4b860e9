"""Parts that are made when first needed, once: the first need may come from many threads.

Two kinds: what a process has once (`FirstUse`), and what each event loop has for itself
(`PerLoop`). Both survive a fork: a child finds no lock held by a thread that it does not have.
"""

import asyncio
import os
import threading
import weakref
from collections.abc import Callable
from typing import Final, Generic, TypeVar

T = TypeVar("T")


class FirstUse:
    """The lock under which lazy parts are made: `with first_use.lock: ...`.

    It is reentrant, since one part may need another. A forked child has a new one.
    """

    def __init__(self) -> None:
        self.lock = threading.RLock()
        _first_uses.add(self)

    def renew(self) -> None:
        """Begin with a free lock: the thread that held it is not in this process."""
        self.lock = threading.RLock()


_first_uses: Final["weakref.WeakSet[FirstUse]"] = weakref.WeakSet()


def _after_fork() -> None:
    for first_use in list(_first_uses):
        first_use.renew()


os.register_at_fork(after_in_child=_after_fork)


class PerLoop(Generic[T]):
    """Keeps one part for each event loop of this process.

    Parts of closed loops are dropped. Those of a parent process are kept and never used: closing
    them here would end connections that the parent still uses.
    """

    def __init__(self, make: Callable[[], T]) -> None:
        self._make = make
        self._made: dict[tuple[int, int], tuple[asyncio.AbstractEventLoop, T]] = {}
        self._first_use = FirstUse()

    def here(self) -> T:
        """Return the part of the running loop; make it if there is none."""
        loop = asyncio.get_running_loop()
        key = (os.getpid(), id(loop))
        found = self._made.get(key)
        if found is None or found[0] is not loop:
            with self._first_use.lock:
                self._drop_closed()
                found = self._made[key] = (loop, self._make())
        return found[1]

    def take(self) -> T | None:
        """Return the part of the running loop, if it has one, and keep it no longer."""
        loop = asyncio.get_running_loop()
        with self._first_use.lock:
            found = self._made.pop((os.getpid(), id(loop)), None)
        return found[1] if found is not None and found[0] is loop else None

    def all_here(self) -> list[tuple[asyncio.AbstractEventLoop, T]]:
        """Return the parts of all loops of this process."""
        with self._first_use.lock:
            return [found for (pid, _), found in self._made.items() if pid == os.getpid()]

    def _drop_closed(self) -> None:
        for key, (loop, _) in list(self._made.items()):
            if loop.is_closed():
                del self._made[key]
