"""Simulated processes on one loop: each can be stopped, blocked or killed like a real one.

Everything that a loop runs carries a context, and the context says which strand of which process
it belongs to. So a gate before the loop can hold back exactly what a stopped process would have
done, and let it all go at once when it goes on.
"""

import asyncio
import contextvars
import random
from collections.abc import Awaitable, Callable, Coroutine
from contextvars import ContextVar
from datetime import timedelta
from typing import Any, Final, TypeVar

from detent.testing.virtual import VirtualRuntime, VirtualThread, running_loop

T = TypeVar("T")

# What a process that was stopped had slept through comes within this time after it goes on, in
# any order: the machine has other things to do.
RUSH: Final = 0.3
NOTICED: Final = 3 * RUSH
ALWAYS: Final = float("-inf")
NEVER: Final = float("inf")


class Strand:
    """One thread of a process."""

    __slots__ = ("blocked", "held", "process", "runs")

    def __init__(self, process: "Process") -> None:
        self.process = process
        self.blocked = False
        self.runs = True
        self.held: list[asyncio.Handle] = []
        """What it would have done meanwhile, had it been running."""
        process.strands.append(self)


current: Final[ContextVar[Strand | None]] = ContextVar("detent_simulated_strand", default=None)
"""On which strand the running code is; None outside of all processes."""

WORLD: Final = contextvars.Context()
"""What belongs to no process, such as the store and the network, goes on whoever is stopped."""


def gate(handle: Any) -> bool:
    """Tell whether the owner of a handle runs; if not, keep the handle for later."""
    strand = handle._context.get(current)  # noqa: SLF001  there is no other way to tell
    if strand is None or strand.runs:
        return True
    strand.held.append(handle)
    return False


def who() -> "Process":
    """Return the process that the running code belongs to."""
    strand = current.get()
    assert strand is not None, "only processes do this"
    return strand.process


class Process:
    """One process; after a restart it is another one."""

    def __init__(self, name: str, seed: str) -> None:
        self.name = name
        self.strands: list[Strand] = []
        self.main = Strand(self)
        self.paused = False
        self.dead = False
        self.app: Any = None
        """What it runs."""
        self.ended = False
        self._released = False
        self.cut: str | None = None
        """Which way nothing of it gets through."""
        self.died = running_loop().create_future()
        self.troubled_until = ALWAYS
        """The last moment at which something was wrong with it, as far as is known."""
        self.awake_since = running_loop().time()
        """Since when its main strand has been running, when it runs."""
        self.unheard_until = ALWAYS
        """The last moment at which it may have been unable to reach the store."""
        self._random = random.Random(f"{seed} {name} rush")

    def spawn(self, work: Coroutine[Any, Any, T], name: str) -> asyncio.Task[T]:
        """Let it begin something on its main strand."""
        context = contextvars.Context()
        context.run(current.set, self.main)
        return running_loop().create_task(work, name=name, context=context)

    async def run(self, work: Coroutine[Any, Any, Any], name: str) -> bool:
        """Let it do something; return whether it came to the end of it alive."""
        if self.dead:
            work.close()
            return False
        task = self.spawn(work, f"{self.name}: {name}")
        await asyncio.wait([task, self.died], return_when=asyncio.FIRST_COMPLETED)
        if not task.done():
            return False
        task.result()
        return True

    # What befalls it

    def kill(self) -> None:
        """End it as SIGKILL does: from now on nothing of it happens, not even a last word."""
        if not self.dead and not self._released:
            self.dead = True
            self._update()
            self.died.set_result(None)

    def end(self) -> None:
        """Take note that it has done its work; what it leaves behind is left for others."""
        self.ended = True

    def pause(self) -> None:
        """Stop it as SIGSTOP does; time goes on without it."""
        self.paused = True
        self.suffers()
        self._update()

    def resume(self) -> None:
        """Let it go on as SIGCONT does, with all that it has slept through."""
        self.paused = False
        self.suffers()
        self._update(RUSH)

    async def block(self, seconds: float) -> None:
        """Block the strand that calls this, as `time.sleep` would; the others go on."""
        strand = current.get()
        assert strand is not None
        if self._released:
            return
        loop = running_loop()
        over = loop.create_future()
        strand.blocked = True
        # Its heart beats on another strand: this is no excuse for being taken for dead.
        self.troubled_until = max(self.troubled_until, loop.time() + seconds)
        self._update()

        def unblock() -> None:
            strand.blocked = False
            # The one who blocked goes on first: only then does its loop come round again.
            if not over.done():
                over.set_result(None)
            self._update()

        loop.call_later(seconds, unblock, context=WORLD)
        await over

    def release(self) -> None:
        """Let it go on whatever befell it: the world has ended, and it may clean up."""
        self.paused = self.dead = False
        self._released = True
        for strand in self.strands:
            strand.blocked = False
        self._update()

    def _update(self, rush: float = 0.0) -> None:
        loop = running_loop()
        was_awake = self.main.runs
        for strand in self.strands:
            strand.runs = not (self.dead or self.paused or strand.blocked)
            if strand is self.main and strand.runs and not was_awake:
                self.awake_since = loop.time()
            if strand.runs and strand.held:
                held, strand.held = strand.held, []
                for handle in held:
                    # Only timers may be late; what was ready keeps its order.
                    late = rush and isinstance(handle, asyncio.TimerHandle)
                    loop.put(handle, loop.time() + (self._random.uniform(0, rush) if late else 0))

    # What others know of it

    def suffers(self, seconds: float = 0.0) -> None:
        """Take note that something is wrong with it, or with its line, for that long."""
        until = running_loop().time() + seconds
        self.troubled_until = max(self.troubled_until, until)
        self.unheard_until = max(self.unheard_until, until)

    def unheard_since(self, moment: float) -> bool:
        """Tell whether it may have been unable to reach the store at some time since then."""
        stopped = self.dead or self.ended or self.paused or self.cut is not None
        return stopped or self.unheard_until >= moment

    @property
    def aware(self) -> bool:
        """Whether it is awake, and has been for long enough to have noticed what went on."""
        if self.ended or not self.main.runs:
            return False
        return self.awake_since + NOTICED <= running_loop().time()

    @property
    def well_since(self) -> float:
        """Since when nothing has been wrong with it: ALWAYS, or NEVER while something is."""
        blocked = any(strand.blocked for strand in self.strands)
        if self.dead or self.ended or self.paused or self.cut is not None or blocked:
            return NEVER
        now = running_loop().time()
        return self.troubled_until if self.troubled_until <= now else NEVER


class ProcessRuntime(VirtualRuntime):
    """The runtime of one process: its threads are strands of it, and none may die unseen."""

    def __init__(
        self, process: Process, seed: str, *, ahead: timedelta = timedelta(0), rate: float = 1.0
    ) -> None:
        super().__init__(seed, ahead=ahead, rate=rate)
        self._process = process
        self.on_crash: Callable[[str, BaseException], None] = lambda name, error: None

    def spawn(self, work: Coroutine[Any, Any, Any], name: str) -> asyncio.Task[Any]:
        """See `Runtime.spawn`."""
        task = super().spawn(work, name)
        task.add_done_callback(self._look_at)
        return task

    def thread(self, work: Callable[[], Awaitable[None]], name: str) -> VirtualThread:
        """See `Runtime.thread`."""
        strand = Strand(self._process)
        strand.runs = self._process.main.runs
        context = contextvars.copy_context()
        context.run(current.set, strand)

        async def main() -> None:
            await work()

        task = running_loop().create_task(main(), name=name, context=context)
        task.add_done_callback(self._look_at)
        return VirtualThread(task)

    def _look_at(self, task: asyncio.Task[Any]) -> None:
        if not task.cancelled() and (error := task.exception()) is not None:
            self.on_crash(task.get_name(), error)
