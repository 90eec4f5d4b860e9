"""Hands work to the threads that own connections, and their answers back to any event loop.

Threads and connections are those of a process: made when first needed, anew after a fork, shared
by all event loops, and given back when the last loop that used them has closed the store.
"""

import asyncio
import atexit
import os
import secrets
import threading
import time
import weakref
from collections.abc import Callable, Sequence
from contextlib import suppress
from contextvars import ContextVar
from datetime import timedelta
from typing import Any, Final, TypeVar

from detent.errors import StoreError
from detent.spi.notifier import Wake
from detent.stores.sqlite.desk import Desk
from detent.stores.sqlite.failures import DRIVER_ERRORS, translate
from detent.stores.sqlite.keeper import Identity, identity_of
from detent.stores.sqlite.marks import check_marks
from detent.stores.sqlite.migrations import migrate
from detent.stores.sqlite.orders import AfterCommit, Order
from detent.stores.sqlite.readers import Readers
from detent.stores.sqlite.session import Session
from detent.stores.sqlite.visit import Visit
from detent.stores.sqlite.writer import Writer

T = TypeVar("T")

LEAVE_WITHIN: Final = 10.0
# Nobody waits longer than this for a hint.
AT_EXIT: Final = 1.0


def wall_clock() -> int:
    """Return microseconds since 1970: one machine, one clock, in every process on the file."""
    return time.time_ns() // 1000


class Workers:
    """The threads of one process."""

    def __init__(self, path: str, patience: float, clock: Callable[[], int]) -> None:
        self.pid = os.getpid()
        self.loops: dict[int, asyncio.AbstractEventLoop] = {}
        self._path = path
        self._patience = patience
        self._lock = threading.Lock()
        self._prepared: Identity = None
        """The file that has our schema."""
        self.finalizer: weakref.finalize[..., Any]
        self.origin = secrets.token_bytes(8)
        """Marks the wake-ups that the listeners of this process know of."""
        self.writer = Writer(Desk(path, patience, self.origin), self._prepare, clock)
        self.readers = Readers(path, self._prepare, clock)

    def _prepare(self) -> None:
        """Bring the file to our schema before anything else is done with it."""
        if self._prepared is None or identity_of(self._path) != self._prepared:
            with self._lock:
                if self._prepared is None or identity_of(self._path) != self._prepared:
                    migrate(self._path, self._patience)
                    check_marks(self._path, self._patience)
                    self._prepared = identity_of(self._path)

    def stop(self) -> None:
        """Let the threads end; in a child of the process that has them there are none."""
        if self.pid == os.getpid():
            self.readers.stop()
            self.writer.stop()

    def join(self, patience: float = LEAVE_WITHIN) -> None:
        """Wait until they have ended."""
        self.readers.join(patience)
        self.writer.join(patience)


class Database:
    """Runs work in transactions on the file, with our errors."""

    def __init__(
        self,
        path: str,
        timeout: timedelta = timedelta(seconds=30),
        clock: Callable[[], int] = wall_clock,
    ) -> None:
        self.path = path
        self.clock = clock
        self._timeout = timeout.total_seconds()
        self._lock = threading.Lock()
        self._workers: Workers | None = None
        _databases.add(self)

    async def write(
        self,
        work: Callable[[Session], T | AfterCommit],
        *,
        first: Callable[[Session], T | None] | None = None,
        urgent: bool = False,
        patience: timedelta | None = None,
    ) -> T:
        """Run work in a write transaction, perhaps together with others; return when it is durable.

        `first` may find, without the lock, that there is nothing to write. Work may be started
        anew, so it must keep nothing from an earlier start. `patience` is how long it may wait for
        the lock, if not as long as `[store] timeout` says.
        """
        self._refuse_inside()
        limit = self._timeout
        if patience is not None:
            limit = min(limit, patience.total_seconds())
        order = Order(work, time.monotonic() + limit, first=first, urgent=urgent)
        self._here().writer.put(order)
        return await self._answer(order)  # type: ignore[no-any-return]

    async def read(self, work: Callable[[Session], T]) -> T:
        """Run work that only reads, in a snapshot of its own."""
        order = Order(work, 0.0)
        self._here().readers.put(order)
        return await self._answer(order)  # type: ignore[no-any-return]

    async def visit(self, enter: Callable[[Session], None]) -> Visit:
        """Begin a write transaction that stays open; everybody who writes waits for its end."""
        self._refuse_inside()
        visit = Visit(enter, time.monotonic() + self._timeout)
        self._here().writer.put(visit)
        try:
            await self._answer(visit)
        except asyncio.CancelledError:
            visit.abandon()
            raise
        _visiting.set((self, visit))
        return visit

    async def ask(self, visit: Visit, work: Callable[[Session], T], *, last: bool = False) -> T:
        """Run work of ours in a visit."""
        try:
            return await visit.ask(work, last=last)  # type: ignore[no-any-return]
        except DRIVER_ERRORS as error:
            raise translate(error, self.path) from error

    async def ready(self) -> None:
        """Reach the file, make its tables if need be, and see whether it can be written to."""
        await self.write(lambda session: None)

    def announce(self, wakes: Sequence[Wake]) -> None:
        """Have wake-ups written for the listeners of other processes, soon; from any thread."""
        self._any().writer.put(wakes)

    async def announced(self) -> None:
        """Wait until wake-ups are written, or could not be."""
        workers = self._workers
        if workers is not None and workers.pid == os.getpid():
            ends_at = time.monotonic() + AT_EXIT
            order = Order(lambda session: True, ends_at, first=workers.writer.nothing_new)
            workers.writer.put(order)
            with suppress(StoreError):
                await self._answer(order)

    @property
    def in_use(self) -> bool:
        """Whether this process has threads for the file."""
        workers = self._workers
        return workers is not None and workers.pid == os.getpid()

    @property
    def origin(self) -> bytes:
        """What marks the wake-ups of this process."""
        return self._any().origin

    async def close(self) -> None:
        """Give back what this event loop holds; the last loop stops the threads."""
        loop = asyncio.get_running_loop()
        with self._lock:
            workers = self._workers
            if workers is None or workers.pid != os.getpid():
                return
            workers.loops.pop(id(loop), None)
            if any(not known.is_closed() for known in workers.loops.values()):
                return
            self._workers = None
        workers.finalizer.detach()
        workers.stop()
        await asyncio.to_thread(workers.join)

    async def _answer(self, order: Order) -> Any:
        try:
            return await order.future
        except DRIVER_ERRORS as error:
            raise translate(error, self.path) from error

    def _here(self) -> Workers:
        """Return the threads of this process, and remember that the running loop uses them."""
        loop = asyncio.get_running_loop()
        workers = self._any()
        if workers.loops.get(id(loop)) is not loop:
            with self._lock:
                workers.loops[id(loop)] = loop
        return workers

    def _any(self) -> Workers:
        """Return the threads of this process."""
        workers = self._workers
        if workers is None or workers.pid != os.getpid():
            with self._lock:
                workers = self._workers
                if workers is None or workers.pid != os.getpid():
                    workers = self._workers = Workers(self.path, self._timeout, self.clock)
                    # For those who never close: the threads end with the store.
                    workers.finalizer = weakref.finalize(self, workers.stop)
                    workers.finalizer.atexit = False
        return workers

    def _refuse_inside(self) -> None:
        """Refuse to wait for a lock that the caller holds himself."""
        database, visit = _visiting.get()
        if database is self and visit is not None and visit.open:
            raise StoreError(
                "inside ctx.transaction() this task holds the file's only write lock, and would "
                "wait for itself; pass within=connection, or write after the block"
            )

    def leave(self) -> None:
        """End the threads of a program that ends; what it published last is still written."""
        workers = self._workers
        if workers is not None and workers.pid == os.getpid():
            workers.stop()
            workers.join(AT_EXIT)

    def forget(self) -> None:
        """Begin anew in a child process: it has none of its parent's threads."""
        self._lock = threading.Lock()
        self._workers = None


def _running_loop() -> asyncio.AbstractEventLoop | None:
    try:
        return asyncio.get_running_loop()
    except RuntimeError:
        return None


_visiting: Final[ContextVar[tuple[Database | None, Visit | None]]] = ContextVar(
    "detent_sqlite_visit", default=(None, None)
)
_databases: Final["weakref.WeakSet[Database]"] = weakref.WeakSet()


def _after_fork() -> None:
    for database in list(_databases):
        database.forget()


def _at_exit() -> None:
    for database in list(_databases):
        database.leave()


os.register_at_fork(after_in_child=_after_fork)
atexit.register(_at_exit)
