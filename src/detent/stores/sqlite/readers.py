"""The threads of a process that read: no question waits for a write, or for a long listing."""

import threading
from collections.abc import Callable
from queue import SimpleQueue
from typing import Final

from detent.stores.sqlite.connection import open_reader
from detent.stores.sqlite.keeper import Keeper
from detent.stores.sqlite.orders import Answer, Order, attempted, deliver
from detent.stores.sqlite.session import Session

THREADS: Final = 3


class Readers:
    """Carries out orders that only read, each in a snapshot of its own."""

    def __init__(self, path: str, prepare: Callable[[], None], clock: Callable[[], int]) -> None:
        self._path = path
        self._prepare = prepare
        self._clock = clock
        self._inbox: SimpleQueue[Order | None] = SimpleQueue()
        self._lock = threading.Lock()
        self._threads: list[threading.Thread] = []
        self._idle = 0

    def put(self, order: Order) -> None:
        """Take an order, from any thread; there is another thread for it if all are busy."""
        with self._lock:
            if self._idle > 0:
                self._idle -= 1
            elif len(self._threads) < THREADS:
                thread = threading.Thread(target=self._run, name="detent-sqlite-read", daemon=True)
                self._threads.append(thread)
                thread.start()
        self._inbox.put(order)

    def stop(self) -> None:
        """End when all orders are carried out."""
        with self._lock:
            for _ in self._threads:
                self._inbox.put(None)

    def join(self, patience: float) -> None:
        """Wait for the end."""
        for thread in self._threads:
            thread.join(patience)

    def _run(self) -> None:
        keeper = Keeper(self._path)
        while (order := self._inbox.get()) is not None:
            with keeper:
                answer = self._carry_out(keeper, order)
            with self._lock:
                self._idle += 1
            deliver([answer])
        with keeper:
            keeper.close()

    def _carry_out(self, keeper: Keeper, order: Order) -> Answer:
        answer = attempted(order, lambda: self._look(keeper, order))
        if answer.error is not None:
            # A connection in the middle of something unknown is not used again.
            keeper.close()
        return answer

    def _look(self, keeper: Keeper, order: Order) -> object:
        self._prepare()
        if keeper.is_replaced:
            keeper.close()
        connection = keeper.connection("own", lambda: open_reader(self._path))
        connection.execute("BEGIN")
        try:
            return order.work(Session(connection, self._clock()))
        finally:
            connection.execute("COMMIT")
