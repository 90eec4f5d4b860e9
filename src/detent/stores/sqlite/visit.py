"""Lends the write transaction to a task, statement by statement, for the length of a block.

While a visit lasts nobody else writes, in any process: SQLite has one writer at a time. So a
visit that takes too long is ended, before the leases of all nodes on the file run out.
"""

import sqlite3
import threading
import time
from collections.abc import Callable
from queue import Empty, SimpleQueue
from typing import Any, Final

from detent.errors import StoreError
from detent.stores.sqlite.orders import Answer, Order, Work, attempted, deliver
from detent.stores.sqlite.session import Session

# As long as the default pause between two heartbeats: a lease survives that.
LONGEST: Final = 5.0

OVER: Final = "the transaction is over"
UNDONE: Final = "the transaction was ended by one of its statements; nothing is committed"
TOO_LONG: Final = (
    "the transaction was undone: it held the file's only write lock for {:.0f} s, and no node can "
    "renew its lease meanwhile; do what is slow before the block"
)


class Request(Order):
    """Something to be done in the transaction; the last one ends it."""

    __slots__ = ("last",)

    def __init__(self, work: Work, *, last: bool = False) -> None:
        super().__init__(work, 0.0)
        self.last = last


class Visit(Order):
    """An order to begin a transaction and to keep it open for requests."""

    __slots__ = ("_leaving", "_lock", "_over", "_requests")

    def __init__(self, enter: Work, ends_at: float) -> None:
        super().__init__(enter, ends_at)
        self._requests: SimpleQueue[Request] = SimpleQueue()
        self._lock = threading.Lock()
        self._leaving = False
        self._over: str | None = None
        """Why nothing can be asked any more."""

    # On the event loop of the task

    @property
    def open(self) -> bool:
        """Whether the transaction is still there, and not about to end."""
        return self._over is None and not self._leaving

    async def ask(self, work: Work, *, last: bool = False) -> Any:
        """Have something done in the transaction, and return what it returned."""
        request = Request(work, last=last)
        self._put(request)
        return await request.future

    def abandon(self) -> None:
        """Have the transaction undone; nobody waits for it."""
        if self.open:
            self._put(Request(_undo, last=True))

    def _put(self, request: Request) -> None:
        # With the lock, so that no request is put where nobody will look again.
        with self._lock:
            if self._over is not None:
                raise StoreError(self._over)
            self._leaving = self._leaving or request.last
            self._requests.put(request)

    # On the thread of the writer

    def host(
        self, connection: sqlite3.Connection, clock: Callable[[], int], check: Callable[[], None]
    ) -> None:
        """Serve requests in a transaction that has begun, until the last; then it has ended.

        `check` raises if what is committed now would be lost.
        """
        session = Session(connection, clock())
        entered = attempted(self, lambda: self.work(session))
        if entered.error is not None:
            self._end(connection, OVER)
            deliver([entered])
            return
        deliver([Answer(self, self)])
        ends_at = time.monotonic() + LONGEST
        while connection.in_transaction:
            try:
                request = self._requests.get(timeout=max(ends_at - time.monotonic(), 0.0))
            except Empty:
                self._end(connection, TOO_LONG.format(LONGEST))
                return
            session.now = clock()
            answer = attempted(request, lambda: _done(request, session, check))  # noqa: B023  done at once
            if request.last:
                self._end(connection, OVER)
            deliver([answer])
        self._end(connection, UNDONE)

    def _end(self, connection: sqlite3.Connection, why: str) -> None:
        with self._lock:
            self._over = self._over or why
        if connection.in_transaction:
            connection.execute("ROLLBACK")
        refused = []
        while not self._requests.empty():
            refused.append(Answer(self._requests.get(), error=StoreError(why)))
        deliver(refused)


def _done(request: Request, session: Session, check: Callable[[], None]) -> Any:
    if request.last:
        check()
    return request.work(session)


def _undo(session: Session) -> None:
    """Leave it to the end of the visit: what is not committed then is undone."""
