"""Keeps account of the open connections, so that those to a server that was left can be dropped."""

import asyncio
import os
import weakref
from contextlib import suppress
from typing import Any, NamedTuple

from detent.stores.postgres.answers import Place


class Made(NamedTuple):
    """A connection, with the process and the loop that own it and the server it leads to."""

    process: int
    loop: asyncio.AbstractEventLoop
    connection: "weakref.ref[Any]"
    place: Place

    def is_open(self) -> bool:
        """Return whether this process owns the connection and it was not closed."""
        connection = self.connection()
        return self.process == os.getpid() and connection is not None and not connection.is_closed()


class Connections:
    """The connections of one store. All methods are safe on any thread."""

    def __init__(self) -> None:
        self._made: dict[int, Made] = {}

    def add(self, connection: Any, place: Place) -> None:
        """Take a new connection of the running loop into account."""
        # A copy is looked through: loops on other threads add theirs at the same time.
        for key, made in list(self._made.items()):
            if not made.is_open():
                self._made.pop(key, None)
        loop = asyncio.get_running_loop()
        self._made[id(connection)] = Made(os.getpid(), loop, weakref.ref(connection), place)

    def count(self) -> int:
        """Return how many connections of this process are open, also those in use."""
        return sum(made.is_open() for made in list(self._made.values()))

    def abort_all_but(self, place: Place) -> None:
        """Cut the connections to any other server, also those in use.

        A silent server would not answer a polite end either, and the calls that wait for it are to
        fail now.
        """
        for made in list(self._made.values()):
            if made.place != place and made.is_open():
                # On the loop that owns it; a loop that has been closed has no use for it.
                with suppress(RuntimeError):
                    made.loop.call_soon_threadsafe(_abort, made.connection)


def _abort(made: "weakref.ref[Any]") -> None:
    connection = made()
    if connection is not None:
        connection.terminate()
