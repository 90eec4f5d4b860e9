"""Runs the daemons that this node leads: starts them, starts them again, and stops them.

A daemon follows its leadership. It begins when the node is elected, is told to stop when the node
drains, and is stopped at once when the term is lost, since a successor may have begun. A thread
cannot be stopped: it is told, and until it has ended the node does not want the role again.
"""

import asyncio
from collections.abc import Iterable
from typing import Any, Final
from uuid import UUID

from detent._engine.leadership import Campaign, Elector
from detent._engine.service import Service
from detent._engine.wakeup import Wakeup
from detent.daemons import Daemon, DaemonContext, StopSignal
from detent.errors import StoreError, TermLost
from detent.events import (
    Bus,
    DaemonEnded,
    DaemonSaid,
    DaemonStarted,
    DaemonStopped,
    DaemonStuck,
)
from detent.model.failure import Clean, describe
from detent.model.retry import JITTER_BITS, delay_after
from detent.model.text import storable
from detent.spi.daemons import DaemonReport, DaemonStore
from detent.spi.leadership import Term, TermFence
from detent.spi.runtime import Cancelable, Runtime

FOREVER: Final = 3_600.0
MAX_ERROR: Final = 2_000
# What was canceled gets this long to end; then it counts as stuck.
LAST_GRACE: Final = 5.0
# How often a thread that waits asks whether the node still leads.
SLICE: Final = 1.0
DRAINS: Final = "the node drains"
# One that ends at once, and is to be started at once, would take all of the node's time.
LEAST_REST: Final = 0.1


class DaemonKeeper(Service):
    """The daemons of a node, and what is told of them."""

    name = "daemons"

    def __init__(
        self,
        runtime: Runtime,
        bus: Bus,
        store: DaemonStore,
        fence: TermFence,
        *,
        elector: Elector,
        node_name: str,
    ) -> None:
        super().__init__(runtime, bus)
        self._store = store
        self._reports: dict[str, tuple[Term, DaemonReport]] = {}
        self._attendants: list[Attendant] = []
        self.fence = fence
        self.elector = elector
        self.node_name = node_name
        self.clean: Clean | None = None
        """What takes out of errors what nobody is to see."""

    def take(self, daemons: Iterable[Daemon]) -> None:
        """Want to run daemons from now on."""
        for daemon in daemons:
            attendant = Attendant(self, daemon)
            self._attendants.append(attendant)
            self.elector.run_for(
                Campaign(daemon.leader_role, attendant.begin, attendant.lose, attendant.is_wanted)
            )

    def report(self, term: Term, report: DaemonReport) -> None:
        """Let others know, soon."""
        self._reports[report.name] = (term, report)
        self.wake()

    async def run_once(self) -> float:
        """Write the reports that nobody has seen yet."""
        if not self._reports:
            return self.unasked(FOREVER)
        for name, (term, report) in list(self._reports.items()):
            if not await self._store.save_daemon(term, report):
                self.elector.wake()  # another leads: the sooner we know, the better
            if self._reports.get(name) == (term, report):
                del self._reports[name]
        return FOREVER

    async def wind_down(self, limit: float) -> None:
        """Let all daemons come to their end, each with its grace, and give up their roles."""
        await asyncio.gather(*(attendant.close(limit) for attendant in self._attendants))

    def hurry(self) -> None:
        """Let no more grace pass."""
        for attendant in self._attendants:
            attendant.cancel()

    async def dismiss(self, term: Term, report: DaemonReport) -> None:
        """Write the last report of a daemon, and let others run it."""
        self._reports.pop(report.name, None)
        try:
            async with asyncio.timeout(LAST_GRACE):
                await self._store.save_daemon(term, report)
                await self.elector.resign(term.role)
        except (StoreError, TimeoutError):
            return  # the lease ends by itself


class Attendant:
    """Looks after one daemon."""

    def __init__(self, keeper: DaemonKeeper, daemon: Daemon) -> None:
        self._keeper = keeper
        self._runtime, self._bus = keeper.runtime, keeper.bus
        self._daemon = daemon
        self._task: asyncio.Task[None] | None = None
        self._run: Run | None = None
        self._work: asyncio.Future[Any] | None = None
        self._news = Wakeup(keeper.runtime)
        self._reason: str | None = None
        """Why it is to end; None while it is to go on."""
        self._patience: Cancelable | None = None
        self._given_up = False
        self._closed = False
        self._restarts = 0

    def is_wanted(self) -> bool:
        """Whether the node could run it: nothing of an earlier term is still going on."""
        return not self._closed and self._task is None and self._work is None

    def begin(self, term: Term) -> None:
        """Run the daemon under a term, from now on."""
        self._reason, self._given_up, self._restarts = None, False, 0
        self._task = self._runtime.spawn(self._tend(term), f"detent-daemon-{self._daemon.name}")

    def lose(self, term: Term, reason: str) -> None:
        """Stop at once: somebody else may be running it."""
        self._tell(reason)
        self.cancel()

    async def close(self, limit: float) -> None:
        """Let the daemon come to its end, with grace, and run it no more."""
        self._closed = True
        task = self._task
        if task is None:
            return
        self._tell(DRAINS)
        grace = min(limit, self._daemon.grace.total_seconds())
        timer = self._runtime.later(grace, self.cancel)
        try:
            await task
        finally:
            timer.cancel()

    def _tell(self, reason: str) -> None:
        self._reason = self._reason or reason
        self._news.set()
        if self._run is not None:
            self._run.stop.set()

    def cancel(self) -> None:
        """Cancel what was told to end; a thread goes on, but nobody waits for it much longer."""
        if self._reason is None or self._work is None or self._work.done():
            return
        if self._patience is None:
            self._patience = self._runtime.later(LAST_GRACE, self._give_up)
        if self._daemon.is_async:
            self._work.cancel()

    def _give_up(self) -> None:
        if self._reason is not None and self._work is not None:
            self._given_up = True
            self._news.set()

    # What goes on

    async def _tend(self, term: Term) -> None:
        """Run the daemon again and again, until it is to end."""
        failures = 0
        while True:
            began = self._runtime.monotonic()
            error = await self._run_once(term)
            if self._reason is not None:
                break
            lasted = self._runtime.monotonic() - began
            failures = 1 if lasted >= self._long else failures + 1
            await self._rest(term, error, failures)
            if self._reason is not None:
                break
            self._restarts += 1
        self._task = None
        await self._conclude(term, self._reason)

    @property
    def _long(self) -> float:
        """After this many seconds a failure is the first again."""
        return self._daemon.restart.max_delay.total_seconds()

    async def _rest(self, term: Term, error: str | None, failures: int) -> None:
        bits = self._runtime.random_bits(JITTER_BITS)
        planned = delay_after(self._daemon.restart, failures, bits).total_seconds()
        delay = max(planned, LEAST_REST)
        self._bus.emit(DaemonEnded(term.holder, self._daemon.name, term.number, error, delay))
        self._keeper.report(term, self._said("restarting", error))
        ends_at = self._runtime.monotonic() + delay
        while self._reason is None and (left := ends_at - self._runtime.monotonic()) > 0:
            await self._news.wait(left)

    async def _conclude(self, term: Term, reason: str) -> None:
        """Say how it ended, and let others run it."""
        node, name = term.holder, self._daemon.name
        if self._work is not None:
            self._bus.emit(DaemonStuck(node, name, term.number))
            if reason == DRAINS:
                self._keeper.elector.leave_behind(term.role)
            return
        self._bus.emit(DaemonStopped(node, name, term.number, reason))
        if reason == DRAINS:
            await self._keeper.dismiss(term, self._said("stopped"))

    async def _run_once(self, term: Term) -> str | None:
        """Run the daemon to its end, or to ours; return what it raised."""
        run = self._run = Run(self._keeper, self._daemon, term)
        work = self._work = self._started(DaemonContext(run))
        work.add_done_callback(self._ended)
        self._bus.emit(DaemonStarted(term.holder, self._daemon.name, term.number))
        self._keeper.report(term, self._said("running"))
        told = False
        while not work.done() and not self._given_up:
            await self._news.wait(None)
            if self._reason == DRAINS and not told:
                told = True
                self._keeper.report(term, self._said("stopping"))
        self._run = None
        if work.done():
            self._work = None  # we may be here before its callback was
        return _error_of(work, self._keeper.clean)

    def _started(self, context: DaemonContext) -> asyncio.Future[Any]:
        name = f"detent-daemon-{self._daemon.name}"
        if self._daemon.is_async:
            work: asyncio.Future[Any] = self._runtime.spawn(_awaited(self._daemon, context), name)
            return work
        return self._runtime.blocking(lambda: self._daemon.call(context), name)

    def _ended(self, work: asyncio.Future[Any]) -> None:
        # Looked at here, too: what a stuck one raises in the end is nobody's business.
        _error_of(work)
        if self._work is work:
            self._work = None
        if self._patience is not None:
            self._patience.cancel()
            self._patience = None
        self._news.set()
        if self._task is None:
            self._keeper.elector.wake()  # the node could run it again

    def _said(self, state: str, error: str | None = None) -> DaemonReport:
        text = None if error is None else storable(error, MAX_ERROR)
        return DaemonReport(self._daemon.name, state, self._keeper.node_name, self._restarts, text)


class Run:
    """One run of a daemon: what stands behind its context."""

    def __init__(self, keeper: DaemonKeeper, daemon: Daemon, term: Term) -> None:
        self._keeper = keeper
        self._held = term
        self.stop = StopSignal()
        self.name = daemon.name
        self.node_id: UUID = term.holder
        self.node_name = keeper.node_name
        self.term = term.number

    def should_stop(self) -> bool:
        """See `DaemonPort`, here and below."""
        return self.stop.is_set() or not self._leads()

    def _leads(self) -> bool:
        return self._keeper.elector.leads(self._held.role) == self._held

    async def stopping(self) -> None:
        await self.stop.wait()

    def wait(self, seconds: float | None) -> bool:
        clock = self._keeper.runtime.monotonic
        ends_at = None if seconds is None else clock() + seconds
        while not self.should_stop():
            left = SLICE if ends_at is None else min(ends_at - clock(), SLICE)
            if left <= 0:
                return False
            self.stop.wait_blocking(left)
        return True

    def write_log(self, level: str, message: str) -> None:
        said = DaemonSaid(self.node_id, self.name, self.term, level, str(message))
        self._keeper.bus.emit(said)

    async def fence(self, connection: Any) -> None:
        self._check()
        await self._keeper.fence.fence_within(connection, self._held)

    def fence_sync(self, connection: Any) -> None:
        self._check()
        self._keeper.fence.fence_within_sync(connection, self._held)

    def _check(self) -> None:
        """Refuse without asking when we know better."""
        if not self._leads():
            raise TermLost(self._held.role, self.term)


async def _awaited(daemon: Daemon, context: DaemonContext) -> None:
    try:
        await daemon.call(context)
    except (SystemExit, KeyboardInterrupt) as error:
        # They would end the whole node.
        raise RuntimeError(f"it raised {error!r}") from error


def _error_of(work: asyncio.Future[Any], clean: Clean | None = None) -> str | None:
    if not work.done():
        return None
    if work.cancelled():
        return "CancelledError"
    error = work.exception()
    return None if error is None else describe(error, clean)
