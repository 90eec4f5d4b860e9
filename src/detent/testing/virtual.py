"""Virtual time: tests of hours that take milliseconds and come out the same every time.

    from detent.testing.virtual import VirtualRuntime, in_virtual_time

    @in_virtual_time
    async def test_a_reminder_is_sent_the_next_day() -> None:
        runtime = VirtualRuntime(seed=1)
        app = App(config=Config(), store=MemoryStore(runtime.utcnow), runtime=runtime)
        ...
        async with app.node():
            await asyncio.sleep(86_400)     # over at once

The loop's clock stands still while there is anything to do, and jumps to the next timer when
there is not. Everything that asks the loop for time follows: `asyncio.sleep`, timeouts, the
engine through its `VirtualRuntime`, and a `MemoryStore` whose clock is `runtime.utcnow`. Chance
and ids come from the seed, so a test that fails once fails again.

What is outside stays outside. Time waits for functions run with `asyncio.to_thread`, but not for
other threads, processes or sockets: tasks declared with `def` run on real threads, and are
better tested in real time.
"""

import asyncio
import functools
import random
import selectors
from collections.abc import Awaitable, Callable, Coroutine
from concurrent.futures import Executor
from datetime import UTC, datetime, timedelta
from typing import Any, Final, ParamSpec, TypeVar, TypeVarTuple
from uuid import UUID

from detent.ids import COUNTER_LIMIT
from detent.spi.runtime import Cancelable

P = ParamSpec("P")
T = TypeVar("T")
Ts = TypeVarTuple("Ts")

START: Final = datetime(2030, 1, 1, tzinfo=UTC)
DAY: Final = timedelta(days=1)
# So many rounds without a tick are a loop that waits for something without waiting.
ROUNDS: Final = 1_000_000
_NANO: Final = 1_000_000_000
_RANDOM_BITS: Final = 62


class Deadlock(RuntimeError):
    """Everybody waits, and nobody is left who could wake them."""


class VirtualLoop(asyncio.SelectorEventLoop):
    """An event loop that never waits: its clock jumps to the next timer instead.

    The clock begins at 0. `limit` ends a run that would go on for ever, such as one that waits
    for a job that never comes while its node goes on polling.
    """

    def __init__(self, limit: timedelta = DAY) -> None:
        self._nanoseconds = 0  # whole ones: adding them up loses nothing
        self._limit = limit.total_seconds()
        self._rounds = 0
        self._outside: dict[asyncio.Future[Any], None] = {}
        super().__init__(_Selector(self._wait))

    def time(self) -> float:
        """Return the virtual seconds since the loop was made."""
        return self._nanoseconds / _NANO

    def run_in_executor(
        self, executor: Executor | None, func: Callable[[*Ts], T], *args: *Ts
    ) -> asyncio.Future[T]:
        """Run a function on a thread; time stands still until it has returned."""
        future = super().run_in_executor(executor, func, *args)
        self._outside[future] = None
        future.add_done_callback(lambda done: self._outside.pop(done, None))
        return future

    async def shutdown_default_executor(self, *args: Any, **kwargs: Any) -> None:
        """Wait for the threads, without letting time pass."""
        waiting: asyncio.Future[None] = self.create_future()
        self._outside[waiting] = None
        try:
            await super().shutdown_default_executor(*args, **kwargs)
        finally:
            del self._outside[waiting]

    def _wait(self, timeout: float | None, poll: Callable[[float | None], Any]) -> Any:
        """Do what a selector does when nothing is ready: let time pass, or say that it cannot."""
        if timeout is not None and timeout <= 0:
            self._rounds += 1
            if self._rounds > ROUNDS:
                raise Deadlock(f"no time has passed in {ROUNDS:,} rounds; {self._who_waits()}")
            return []
        self._rounds = 0
        if self._outside:
            return poll(None)
        if events := poll(0):
            return events
        if timeout is None:
            raise Deadlock(f"nothing is ready and no timer is set; {self._who_waits()}")
        # At least one: a rest that is lost in rounding must not stop the clock.
        self._nanoseconds += max(round(timeout * _NANO), 1)
        if self.time() > self._limit:
            raise TimeoutError(f"more than {self._limit:,.0f} virtual s; {self._who_waits()}")
        return []

    def _who_waits(self) -> str:
        lines = sorted(f"  {_described(task)}" for task in asyncio.all_tasks(self))
        return "\n".join(["these tasks wait:", *lines])


class _Selector(selectors.SelectSelector):
    """A selector that leaves the waiting to the loop."""

    def __init__(self, wait: Callable[[float | None, Callable[[float | None], Any]], Any]) -> None:
        super().__init__()
        self._wait = wait

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        events: list[tuple[selectors.SelectorKey, int]] = self._wait(timeout, super().select)
        return events


def _described(task: asyncio.Task[Any]) -> str:
    frames = task.get_stack(limit=1)
    place = f"{frames[0].f_code.co_filename}:{frames[0].f_lineno}" if frames else "?"
    return f"{task.get_name()} at {place}"


def run(main: Coroutine[Any, Any, T], *, limit: timedelta = DAY) -> T:
    """Run a coroutine in virtual time and return what it returns.

    Raises `Deadlock` when nobody can ever wake, and `TimeoutError` after `limit` virtual time.
    """
    with asyncio.Runner(loop_factory=lambda: VirtualLoop(limit)) as runner:
        return runner.run(main)


def in_virtual_time(test: Callable[P, Coroutine[Any, Any, None]]) -> Callable[P, None]:
    """Make an async test one that runs in virtual time; its fixtures must not be async."""

    @functools.wraps(test)
    def wrapper(*args: P.args, **kwargs: P.kwargs) -> None:
        run(test(*args, **kwargs))

    return wrapper


class VirtualRuntime:
    """A `Runtime` in virtual time: what it says follows from the seed and the loop's clock.

    Give each node of a test a runtime with a seed of its own, so that their ids differ. `ahead`
    makes this machine's clock differ from the others'.
    """

    def __init__(
        self, seed: int | str = 0, *, start: datetime = START, ahead: timedelta = timedelta(0)
    ) -> None:
        self._random = random.Random(seed)
        self._start = start
        self._ahead = ahead
        self._last_stamp = -1

    def monotonic(self) -> float:
        """See `Runtime.monotonic`."""
        return _loop().time()

    def utcnow(self) -> datetime:
        """See `Runtime.utcnow`."""
        return self._start + self._ahead + timedelta(seconds=_loop().time())

    async def sleep(self, seconds: float) -> None:
        """See `Runtime.sleep`."""
        await asyncio.sleep(seconds)

    def later(self, seconds: float, action: Callable[[], None]) -> Cancelable:
        """See `Runtime.later`."""
        return _loop().call_later(seconds, action)

    def random_bits(self, bits: int) -> int:
        """See `Runtime.random_bits`."""
        return self._random.getrandbits(bits)

    def uniform(self, low: float, high: float) -> float:
        """See `Runtime.uniform`."""
        return self._random.uniform(low, high)

    def new_id(self) -> UUID:
        """Return a UUIDv7: virtual milliseconds, a counter, and bits that follow from the seed."""
        milliseconds = int(self.utcnow().timestamp() * 1000)
        # A full counter runs on into the next millisecond, since none will come by waiting.
        stamp = max(milliseconds * COUNTER_LIMIT, self._last_stamp + 1)
        self._last_stamp = stamp
        milliseconds, counter = divmod(stamp, COUNTER_LIMIT)
        bits = self._random.getrandbits(_RANDOM_BITS)
        return UUID(int=milliseconds << 80 | 0x7 << 76 | counter << 64 | 0b10 << 62 | bits)

    def spawn(self, work: Coroutine[Any, Any, Any], name: str) -> asyncio.Task[Any]:
        """See `Runtime.spawn`."""
        return _loop().create_task(work, name=name)

    def thread(self, work: Callable[[], Awaitable[None]], name: str) -> "VirtualThread":
        """Run an async function beside the others, on the same loop: its steps come in order."""
        return VirtualThread(_loop().create_task(_main(work), name=name))


class VirtualThread:
    """What stands for a thread where there is only one: a task that nobody can block."""

    def __init__(self, task: asyncio.Task[None]) -> None:
        self._task = task

    def stop(self) -> None:
        """See `Thread.stop`."""
        self._task.cancel()

    async def joined(self) -> None:
        """Wait until it has ended; what it raised is a mistake that a test should see."""
        await asyncio.wait([self._task])
        if not self._task.cancelled():
            self._task.result()


async def _main(work: Callable[[], Awaitable[None]]) -> None:
    await work()


def _loop() -> VirtualLoop:
    loop = asyncio.get_running_loop()
    if not isinstance(loop, VirtualLoop):
        raise RuntimeError(  # noqa: TRY004  the wrong place to be called, not a wrong argument
            "a VirtualRuntime works on a virtual loop only: decorate the test with "
            "@in_virtual_time, or run it with detent.testing.virtual.run(...)"
        )
    return loop
