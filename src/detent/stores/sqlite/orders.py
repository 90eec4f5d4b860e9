"""What is asked of the threads that own connections, and how their answers find the way back."""

import asyncio
from collections.abc import Callable, Iterable
from typing import Any, NamedTuple

from detent.stores.sqlite.session import Session

Work = Callable[[Session], Any]


class AfterCommit(NamedTuple):
    """Returned by work whose answer is read when its transaction is durable, without the lock."""

    read: Work


class Order:
    """One piece of work, and the future that waits for its answer."""

    __slots__ = ("alone", "ends_at", "first", "future", "loop", "urgent", "work")

    def __init__(
        self,
        work: Work,
        ends_at: float,
        *,
        first: Work | None = None,
        urgent: bool = False,
    ) -> None:
        self.loop = asyncio.get_running_loop()
        self.future: asyncio.Future[Any] = self.loop.create_future()
        self.work = work
        self.ends_at = ends_at
        """When its caller is told that it could not be done, by the monotonic clock."""
        self.first = first
        """Work that only reads; when its answer is not None, that is the answer."""
        self.urgent = urgent
        self.alone = False
        """Whether it must not share a transaction, since a shared one came to nothing."""

    @property
    def unwanted(self) -> bool:
        """Whether nobody waits for the answer any more."""
        return self.future.cancelled()


class Answer(NamedTuple):
    """What came of an order."""

    order: Order
    value: Any = None
    error: BaseException | None = None


def attempted(order: Order, work: Callable[[], Any]) -> Answer:
    """Do something for an order; whatever it raises belongs to the one who ordered."""
    try:
        return Answer(order, work())
    except Exception as error:  # noqa: BLE001  the thread has to go on for the others
        return Answer(order, error=error)


def deliver(answers: Iterable[Answer]) -> None:
    """Hand answers to those who wait, each on his own event loop; from any thread."""
    loops: dict[asyncio.AbstractEventLoop, list[Answer]] = {}
    for answer in answers:
        loops.setdefault(answer.order.loop, []).append(answer)
    for loop, mine in loops.items():
        try:
            loop.call_soon_threadsafe(_resolve, mine)
        except RuntimeError:  # the loop is closed: nobody is there to be told
            continue


def _resolve(answers: list[Answer]) -> None:
    for answer in answers:
        future = answer.order.future
        if future.done():
            continue
        if answer.error is None:
            future.set_result(answer.value)
        else:
            future.set_exception(answer.error)
