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
import heapq
import random
import selectors
import threading
from collections import deque
from collections.abc import Awaitable, Callable, Coroutine
from concurrent.futures import Executor
from contextvars import Context
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
# Timers that were called off are kept until there are so many, and more than others.
CALLED_OFF: Final = 200
_RANDOM_BITS: Final = 62


class Deadlock(RuntimeError):
    """Everybody waits, and nobody is left who could wake them."""


class VirtualLoop(asyncio.SelectorEventLoop):
    """An event loop that never waits: its clock jumps to the next timer instead.

    The clock begins at 0. `limit` ends a run that would go on for ever, such as one that waits
    for a job that never comes while its node goes on polling.
    """

    # What asyncio keeps for itself and the types do not tell.
    _ready: deque[asyncio.Handle]
    _thread_id: int | None
    _process_events: Callable[[Any], None]

    gate: Callable[[asyncio.Handle], bool] | None = None
    """Asked before anything is run, if set: what it turns away is its own business from then on.
    A simulation stops the clocks of single processes with it."""

    def __init__(self, limit: timedelta = DAY) -> None:
        self._sockets = selectors.SelectSelector()
        super().__init__(self._sockets)
        self._now = 0.0
        self._limit = limit.total_seconds()
        self._rounds = 0
        self._count = 0
        self._called_off = 0
        self._timers: list[tuple[float, int, asyncio.Handle]] = []
        self._outside: dict[asyncio.Future[Any], None] = {}

    def time(self) -> float:
        """Return the virtual seconds since the loop was made."""
        return self._now

    def call_at(
        self,
        when: float,
        callback: Callable[[*Ts], object],
        *args: *Ts,
        context: Context | None = None,
    ) -> asyncio.TimerHandle:
        """Call a function at a virtual second, after those that were to be called then already."""
        timer = asyncio.TimerHandle(when, callback, args, self, context)
        self._count += 1
        heapq.heappush(self._timers, (when, self._count, timer))
        return timer

    def call_later(
        self,
        delay: float,
        callback: Callable[[*Ts], object],
        *args: *Ts,
        context: Context | None = None,
    ) -> asyncio.TimerHandle:
        """Call a function after virtual seconds."""
        return self.call_at(self._now + delay, callback, *args, context=context)

    def call_soon(
        self, callback: Callable[[*Ts], object], *args: *Ts, context: Context | None = None
    ) -> asyncio.Handle:
        """Call a function in the next round."""
        handle = asyncio.Handle(callback, args, self, context)
        self._ready.append(handle)
        return handle

    def put(self, handle: asyncio.Handle, when: float) -> None:
        """Let a handle that a gate had turned away come again at that virtual second."""
        self._count += 1
        heapq.heappush(self._timers, (when, self._count, handle))

    def call_soon_threadsafe(
        self, callback: Callable[[*Ts], object], *args: *Ts, context: Context | None = None
    ) -> asyncio.Handle:
        """Call a function in the next round; only another thread has to wake the loop for it."""
        if threading.get_ident() == self._thread_id:
            return self.call_soon(callback, *args, context=context)
        return super().call_soon_threadsafe(callback, *args, context=context)

    def run_forever(self) -> None:
        """Run until stopped."""
        _running.loop = self
        try:
            super().run_forever()
        finally:
            _running.loop = None

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

    def _run_once(self) -> None:
        """Run everything that is ready, as asyncio does; then, if nothing is, let time pass."""
        if self._ready:
            self._rounds += 1
            if self._rounds > ROUNDS:
                raise Deadlock(f"no time has passed in {ROUNDS:,} rounds; {self._who_waits()}")
        else:
            self._wait()
        ready, timers, gate = self._ready, self._timers, self.gate
        while timers and timers[0][0] <= self._now:
            ready.append(heapq.heappop(timers)[2])
        for _ in range(len(ready)):
            handle = ready.popleft()
            # A loop is what handles are made for, and a simulation is mostly this.
            if not handle._cancelled and (gate is None or gate(handle)):  # noqa: SLF001
                handle._run()  # noqa: SLF001

    def _wait(self) -> None:
        """Let time pass until something is ready, or say that nothing ever will be."""
        timers = self._timers
        while timers and timers[0][2]._cancelled:  # noqa: SLF001
            heapq.heappop(timers)
            self._called_off -= 1
        if timers and timers[0][0] <= self._now:
            return
        self._rounds = 0
        if self._outside or len(self._sockets.get_map()) > 1:
            # One is the pipe by which other threads wake the loop.
            events = self._sockets.select(None if self._outside else 0)
            self._process_events(events)
            if self._outside or events:
                return
        if not timers:
            raise Deadlock(f"nothing is ready and no timer is set; {self._who_waits()}")
        self._now = timers[0][0]
        if self._now > self._limit:
            raise TimeoutError(f"more than {self._limit:,.0f} virtual s; {self._who_waits()}")

    def _timer_handle_cancelled(self, handle: asyncio.TimerHandle) -> None:
        """Forget timers that were called off, when they are most of what there is."""
        self._called_off += 1
        if self._called_off > CALLED_OFF and self._called_off * 2 > len(self._timers):
            self._timers[:] = [entry for entry in self._timers if not entry[2].cancelled()]
            heapq.heapify(self._timers)
            self._called_off = 0

    def _who_waits(self) -> str:
        lines = sorted(f"  {_described(task)}" for task in asyncio.all_tasks(self))
        return "\n".join(["these tasks wait:", *lines])


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
    makes this machine's clock differ from the others', and `rate` lets it run faster or slower.
    """

    def __init__(
        self,
        seed: int | str = 0,
        *,
        start: datetime = START,
        ahead: timedelta = timedelta(0),
        rate: float = 1.0,
    ) -> None:
        self._random = random.Random(seed)
        self._start = start
        self._ahead = ahead
        self._rate = rate
        self._last_stamp = -1

    def monotonic(self) -> float:
        """See `Runtime.monotonic`."""
        return running_loop().time() * self._rate

    def utcnow(self) -> datetime:
        """See `Runtime.utcnow`."""
        return self._start + self._ahead + timedelta(seconds=running_loop().time() * self._rate)

    async def sleep(self, seconds: float) -> None:
        """See `Runtime.sleep`."""
        await asyncio.sleep(seconds / self._rate)

    def later(self, seconds: float, action: Callable[[], None]) -> Cancelable:
        """See `Runtime.later`."""
        return running_loop().call_later(seconds / self._rate, action)

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
        return running_loop().create_task(work, name=name)

    def thread(self, work: Callable[[], Awaitable[None]], name: str) -> "VirtualThread":
        """Run an async function beside the others, on the same loop: its steps come in order."""
        return VirtualThread(running_loop().create_task(_main(work), name=name))

    def blocking(self, work: Callable[[], Any], name: str) -> asyncio.Future[Any]:
        """Run a function on a real thread; time stands still until it has returned."""
        return running_loop().run_in_executor(None, work)


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


class _Running(threading.local):
    """Which virtual loop runs on a thread: asking asyncio takes a system call each time."""

    loop: VirtualLoop | None = None


_running: Final = _Running()


def running_loop() -> VirtualLoop:
    """Return the virtual loop that runs here, or say that there is none."""
    loop = _running.loop
    if loop is None:
        raise RuntimeError(
            "a VirtualRuntime works on a virtual loop only: decorate the test with "
            "@in_virtual_time, or run it with detent.testing.virtual.run(...)"
        )
    return loop
