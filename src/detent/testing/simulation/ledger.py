"""What the tasks themselves saw: which attempts really ran, when, where, and what came of them."""

import asyncio
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Any, Final
from uuid import UUID

from detent.context import JobContext
from detent.locks import HeldLock
from detent.testing.simulation.process import Process, who


@dataclass(slots=True, eq=False)
class Run:
    """One run of a task's function."""

    job: UUID
    generation: int
    attempt: int
    fence: int
    node: UUID
    queue: str
    task: str
    process: Process
    returned: bool = False
    """Whether the function has returned."""
    stopped: bool = False
    """Whether its node had lost its lease before that."""
    given_up: bool = False
    """Whether its job has ended without it: the end is known although the function goes on."""


@dataclass(slots=True, eq=False)
class Reign:
    """One run of a daemon's function, or of what is done under a lock."""

    process: Process
    term: int
    """Or the fence of the lock."""


class Ledger:
    """All runs, kept by a middleware on every node."""

    def __init__(self) -> None:
        self.runs: dict[tuple[UUID, int], Run] = {}
        """(job, fence) to the first run of that claim."""
        self.going: dict[Process, list[Run]] = {}
        self.queued: dict[tuple[UUID, int], None] = {}
        """(job, fence) of the runs that wait for a worker: their function has not begun."""
        self.effects: dict[tuple[UUID, int], int] = {}
        """(job, generation) to how often its effect was committed."""
        self.begun: dict[tuple[UUID, int], int] = {}
        """(job, generation) to how often it was begun."""
        self.culprits: dict[UUID, tuple[UUID, int]] = {}
        """Incarnation to the job that killed it, and its generation: an operator who lets it run
        again after all gives it another three lives, at the cost of its neighbours."""
        self.reigns: list[Reign] = []
        """The runs of the daemon that go on."""
        self.holders: dict[str, list[tuple[Reign, HeldLock]]] = {}
        """Lock to those who act as if they held it."""
        self.on_run: Callable[[Run], None] = lambda run: None
        self.on_served: Callable[[UUID, int, UUID], None] = lambda _job, _fence, _node: None
        """Told when a run that waited for a worker has one: job, fence and node."""
        self.on_reign: Callable[[Reign, list[Reign]], None] = lambda _reign, _others: None
        self.on_hold: Callable[[str, Reign, Reign], None] = lambda _name, _reign, _other: None

    async def watch(self, ctx: JobContext, proceed: Callable[[], Awaitable[Any]]) -> Any:
        """Keep record of a run: the middleware."""
        run = Run(
            job=ctx.job_id,
            generation=ctx.generation,
            attempt=ctx.attempt,
            fence=ctx.fence,
            node=ctx.node_id,
            queue=ctx.queue,
            task=ctx.task,
            process=who(),
        )
        self.on_run(run)
        self.runs.setdefault((run.job, run.fence), run)
        self.begun[run.job, run.generation] = self.runs_of(run.job, run.generation) + 1
        going = self.going.setdefault(run.process, [])
        going.append(run)
        _here.set(self)
        try:
            value = await proceed()
            run.returned = True
            return value
        finally:
            going.remove(run)

    @contextmanager
    def reign(self, term: int) -> Iterator[Callable[[], None]]:
        """Keep record of a run of the daemon; what it yields is to be called with each commit."""
        reign = Reign(who(), term)
        self.reigns.append(reign)
        try:
            yield lambda: self.on_reign(reign, [each for each in self.reigns if each is not reign])
        finally:
            self.reigns = [each for each in self.reigns if each is not reign]

    @contextmanager
    def held(self, lock: HeldLock) -> Iterator[None]:
        """Keep record of what is done under a lock: by one at a time, but for who lost it."""
        reign = Reign(who(), lock.fence)
        for other, theirs in self.holders.setdefault(lock.name, []):
            if not theirs.lost.is_set() and other.process.aware:
                self.on_hold(lock.name, reign, other)
        entry = (reign, lock)
        self.holders[lock.name].append(entry)
        try:
            yield
        finally:
            self.holders[lock.name] = [
                each for each in self.holders[lock.name] if each is not entry
            ]

    def has_begun(self, job_id: UUID, fence: int) -> bool:
        """Tell whether the function of a job was called under a claim."""
        return (job_id, fence) in self.runs and (job_id, fence) not in self.queued

    def going_on(self, process: Process) -> list[Run]:
        """Return what really runs in a process, with a valid claim or not."""
        return self.going.get(process, [])

    def forget(self, process: Process) -> None:
        """Take note that a process has been killed: nothing of it runs any more."""
        for run in self.going.pop(process, ()):
            self.queued.pop((run.job, run.fence), None)
        self.reigns = [reign for reign in self.reigns if reign.process is not process]
        for name, holders in self.holders.items():
            self.holders[name] = [each for each in holders if each[0].process is not process]

    def runs_of(self, job_id: UUID, generation: int) -> int:
        """Return how often a job has been run in one of its lives."""
        return self.begun.get((job_id, generation), 0)

    def effect(self, job_id: UUID, generation: int) -> None:
        """Take note of something that must happen exactly once."""
        key = (job_id, generation)
        self.effects[key] = self.effects.get(key, 0) + 1


_here: Final[ContextVar[Ledger]] = ContextVar("detent_simulated_ledger")


def ledger_here() -> Ledger:
    """Return the ledger in which the running task is written down."""
    return _here.get()


async def stubborn_sleep(seconds: float) -> None:
    """Sleep to the end, whoever says to stop: the worst of tasks."""
    loop = asyncio.get_running_loop()
    ends_at = loop.time() + seconds
    while (left := ends_at - loop.time()) > 0:
        try:
            await asyncio.sleep(left)
        except asyncio.CancelledError:
            continue
