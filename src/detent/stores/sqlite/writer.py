"""The one thread of a process that writes, with the one connection that does.

Whatever waits when the last transaction has ended shares the next one: each in a savepoint, so
that a bad one harms nobody, and each answered when the commit is on the disk. Nothing waits when
nothing else does.

Between processes SQLite's own way of waiting for the lock is unfair: it sleeps longer and longer,
and whoever writes without a pause wins. Here a waiting thread asks every millisecond or two, and
one that has met others lately leaves a gap of a millisecond between two transactions.
"""

import random
import sqlite3
import threading
import time
from collections import deque
from collections.abc import Callable, Sequence
from queue import Empty, SimpleQueue
from typing import Final

from detent.spi.notifier import Wake
from detent.stores.sqlite.desk import Desk
from detent.stores.sqlite.failures import busy, is_busy
from detent.stores.sqlite.orders import AfterCommit, Answer, Order, attempted, deliver
from detent.stores.sqlite.session import Session
from detent.stores.sqlite.visit import Visit
from detent.stores.sqlite.wakes import News

# No batch begins another order after this long; with the last one it stays below 50 ms.
BUDGET: Final = 0.020
# How long to rest before asking for the lock again: soon at first, then so that it costs little.
ASK_AGAIN: Final = (0.0002, 0.0008)
ASK_LATER: Final = (0.001, 0.003)
LATER: Final = 0.25
COURTESY: Final = 0.001
# For how long others count as being there after they were met.
COMPANY: Final = 1.0
# Wake-ups go with the next transaction; alone if there is none for this long.
PAUSE: Final = 0.003

Waiting = deque[Order]


class Writer:
    """Carries out orders that write."""

    def __init__(self, desk: Desk, prepare: Callable[[], None], clock: Callable[[], int]) -> None:
        self._prepare = prepare
        self._clock = clock
        self._inbox: SimpleQueue[Order | Sequence[Wake] | None] = SimpleQueue()
        self._news = News()
        self._stopping = False
        self._met = -COMPANY
        self._freed = 0.0
        self._asked: float | None = None
        """Since when the lock has been asked for in vain."""
        self._thread = threading.Thread(
            target=self._run, args=(desk,), name="detent-sqlite", daemon=True
        )
        self._thread.start()

    def put(self, order: Order | Sequence[Wake]) -> None:
        """Take an order, or wake-ups for other processes; from any thread."""
        self._inbox.put(order)

    def nothing_new(self, _session: Session) -> bool | None:
        """Answer, on this thread, whether all wake-ups are written; None when they are not."""
        return None if self._news else True

    def stop(self) -> None:
        """End when all orders are carried out."""
        self._inbox.put(None)

    def join(self, patience: float) -> None:
        """Wait for the end."""
        self._thread.join(patience)

    def _run(self, desk: Desk) -> None:
        waiting: Waiting = deque()
        while self._collect(waiting):
            with desk:
                try:
                    self._prepare()
                    self._round(desk, waiting)
                except Exception as error:  # noqa: BLE001  the next order may fare better
                    deliver([Answer(order, error=error) for order in waiting])
                    waiting.clear()
                    self._news.take()
                    desk.close()
        with desk:
            desk.close()

    def _collect(self, waiting: Waiting) -> bool:
        """Take in what was put here; wait for it if there is nothing to do. False ends it all."""
        try:
            while True:
                item = self._next(idle=not waiting and not self._stopping)
                if item is None:
                    self._stopping = True
                elif not isinstance(item, Order):
                    self._news.add(item)
                elif item.urgent:
                    waiting.appendleft(item)
                else:
                    waiting.append(item)
        except Empty:
            return bool(waiting or self._news) or not self._stopping

    def _next(self, *, idle: bool) -> Order | Sequence[Wake] | None:
        if not idle:
            return self._inbox.get_nowait()
        return self._inbox.get(timeout=PAUSE if self._news else None)

    def _round(self, desk: Desk, waiting: Waiting) -> None:
        """Answer what needs no lock; write what does, as soon as the lock is free."""
        desk.check()
        self._skim(desk.own(), waiting)
        if not waiting:
            if self._news and self._begin(desk.unsynced()):
                desk.announce(self._news)
                self._freed = time.monotonic()
            return
        visit = waiting[0]
        connection = desk.guest() if isinstance(visit, Visit) else desk.synced()
        if not self._begin(connection):
            return
        try:
            if isinstance(visit, Visit):
                waiting.popleft()
                visit.host(connection, self._clock, desk.check)
            else:
                self._write(desk, connection, waiting)
        finally:
            self._freed = time.monotonic()

    def _skim(self, connection: sqlite3.Connection, waiting: Waiting) -> None:
        """Drop orders that nobody waits for any more, or too long; ask those that may be over."""
        now = time.monotonic()
        answers = []
        for _ in range(len(waiting)):
            order = waiting.popleft()
            if order.unwanted:
                continue
            answer = self._ask(connection, order)
            if answer is None and now > order.ends_at:
                answer = Answer(order, error=busy())
            if answer is None:
                waiting.append(order)
            else:
                answers.append(answer)
        deliver(answers)

    def _ask(self, connection: sqlite3.Connection, order: Order) -> Answer | None:
        """Return the answer to an order, if it can be had without writing."""
        first, order.first = order.first, None
        if first is None:
            return None
        answer = attempted(order, lambda: first(Session(connection, self._clock())))
        return None if answer.value is None and answer.error is None else answer

    def _begin(self, connection: sqlite3.Connection) -> bool:
        """Begin a transaction; False when somebody else holds the lock, after a short rest."""
        now = time.monotonic()
        if now - self._met < COMPANY and now - self._freed < COURTESY:
            time.sleep(self._freed + COURTESY - now)
        try:
            connection.execute("BEGIN IMMEDIATE")
        except sqlite3.OperationalError as error:
            if not is_busy(error):
                raise
            self._met = time.monotonic()
            self._asked = self._asked or now
            time.sleep(random.uniform(*(ASK_AGAIN if now - self._asked < LATER else ASK_LATER)))
            return False
        self._asked = None
        return True

    def _write(self, desk: Desk, connection: sqlite3.Connection, waiting: Waiting) -> None:
        """Carry out orders in the transaction that has begun, commit, and answer."""
        session = Session(connection, self._clock())
        ends_at = time.monotonic() + BUDGET
        shared = len(waiting) > 1 and not waiting[0].alone
        begun: list[Order] = []
        done: list[Answer] = []
        try:
            while waiting and not isinstance(waiting[0], Visit) and connection.in_transaction:
                if begun and (not shared or waiting[0].alone or time.monotonic() > ends_at):
                    break
                begun.append(waiting.popleft())
                done.append(_carry_out(connection, session, begun[-1], shared=shared))
            desk.add_news(self._news)
            desk.check()
            undone = not _commit(connection, done)
        except Exception as error:
            deliver([Answer(order, error=error) for order in begun])
            raise
        if undone:
            _again_alone(waiting, done)
        else:
            deliver([_read_on(session, answer) for answer in done])


def _carry_out(
    connection: sqlite3.Connection, session: Session, order: Order, *, shared: bool
) -> Answer:
    """Carry out one order; when it fails, undo what it did and nothing else."""
    if not shared:
        answer = attempted(order, lambda: order.work(session))
        if answer.error is not None and connection.in_transaction:
            connection.execute("ROLLBACK")
        return answer
    connection.execute("SAVEPOINT detent_order")
    answer = attempted(order, lambda: order.work(session))
    if connection.in_transaction:
        if answer.error is not None:
            connection.execute("ROLLBACK TO detent_order")
        connection.execute("RELEASE detent_order")
    return answer


def _commit(connection: sqlite3.Connection, done: list[Answer]) -> bool:
    """Commit; return whether it was, or all was undone instead."""
    if not connection.in_transaction:
        # The only one failed and was undone, or SQLite undid all for want of space or memory.
        return False
    try:
        connection.execute("COMMIT")
    except sqlite3.Error as error:
        if connection.in_transaction:
            connection.execute("ROLLBACK")
        if len(done) == 1:
            done[0] = Answer(done[0].order, error=error)
        return False
    return True


def _again_alone(waiting: Waiting, done: list[Answer]) -> None:
    """Answer what failed by its own fault; the others were lost with it and start again."""
    deliver([answer for answer in done if answer.error is not None])
    for answer in reversed(done):
        if answer.error is None:
            answer.order.alone = True
            waiting.appendleft(answer.order)


def _read_on(session: Session, answer: Answer) -> Answer:
    """Return the answer itself, or what is to be read now that it is durable."""
    value = answer.value
    if not isinstance(value, AfterCommit):
        return answer
    return attempted(answer.order, lambda: value.read(session))
