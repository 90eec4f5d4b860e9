"""Keeps the circuit breakers of a node in step with those of all others.

Every node counts by itself and reports to the shared row in batches, or at once when what it has
counted would open the breaker. A write is refused when another node has written since, and done
again from what that one wrote; so a breaker opens once, and its trials are as many as it says in
the whole cluster. A node asks what others did when a hint says so, and now and then while calls of
its own run; when none do it asks nothing.
"""

import asyncio
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from datetime import datetime, timedelta
from typing import Final
from uuid import UUID

from detent._engine.circuits import NEVER, POLL, Known, Running, event_of, is_due, reason_of
from detent._engine.service import Service
from detent.errors import StoreError
from detent.events import Bus
from detent.model.breaker import Breaker, Verdict, verdict_of
from detent.model.circuit import Circuit, Phase, ask, count, is_too_much, judge, renew
from detent.model.outcome import Outcome
from detent.spi.breakers import BreakerRow, BreakerStore
from detent.spi.notifier import BreakerHint, Notifier, Wake
from detent.spi.resilience import ProtectedCall
from detent.spi.runtime import Runtime

# How often counts are reported, while calls run.
REPORT: Final = 0.5
IDLE: Final = 3_600.0
# What was asked for longer ago is asked for again before a call is let pass.
FRESH: Final = 2.0
# A trial whose node is gone is given to another after this time; others are renewed before.
LEASE: Final = timedelta(seconds=15)
RENEW: Final = 5.0
# How often one write is tried while others write too.
TURNS: Final = 8
# The longest pause after trouble with the store is twice this.
PATIENCE: Final = 1.0
# The wait of a job whose breaker could not be asked, and how far apart jobs come back.
AGAIN: Final = timedelta(seconds=1)
SPREAD: Final = 0.2
# How many of the jobs that wait for a breaker each node lets come back in a second, and how much
# longer than its breaker one may wait for that. Each costs a claim, and may have to go again.
PACE: Final = 500.0
LINE: Final = timedelta(minutes=5)
MOST: Final = 10_000


class BreakerKeeper(Service):
    """The breakers of a node: a `Resilience` strategy, and the service that reports for it."""

    name = "breakers"

    def __init__(
        self,
        runtime: Runtime,
        bus: Bus,
        store: BreakerStore,
        notifier: Notifier | None,
        declared: Mapping[str, Breaker],
    ) -> None:
        super().__init__(runtime, bus)
        self._store = store
        self._notifier = notifier
        self._declared = declared
        self._known: dict[str, Known] = {}
        self._calls: dict[tuple[UUID, int], Running] = {}
        # One at a time, so that no reply overtakes another.
        self._desk = asyncio.Lock()
        self._introduced = False
        self._resting = True
        self.node_id: UUID | None = None

    # Around a call

    async def before(self, call: ProtectedCall) -> timedelta | None:
        """See `Resilience.before`."""
        known = None if call.breaker is None else self._find(call.breaker)
        if known is None:
            return None
        if self.runtime.monotonic() - known.asked_at > FRESH:
            await self._refresh(known)
        trial = None
        if known.circuit.phase is not Phase.CLOSED:
            permit = f"{call.job_id.hex}:{call.fence}"
            wait = await self._try(known, permit)
            if wait is not None:
                return self._in_line(known, wait)
            trial = permit if permit in known.trials else None
        self._calls[call.job_id, call.fence] = Running(known, known.circuit.epoch, trial)
        known.running += 1
        if self._resting:
            self.wake()
        return None

    def after(self, call: ProtectedCall, outcome: Outcome) -> None:
        """See `Resilience.after`."""
        running = self._calls.pop((call.job_id, call.fence), None)
        if running is None:
            return
        known, epoch, permit = running
        known.running -= 1
        verdict = verdict_of(known.breaker, outcome)
        reason = reason_of(outcome)
        if permit is not None:
            known.trials.pop(permit, None)
            known.judged.append((permit, verdict, reason))
            self.wake()
        elif verdict is not Verdict.NEITHER and epoch == known.circuit.epoch:
            self._count(known, verdict is Verdict.FAILED, reason)

    def _in_line(self, known: Known, wait: timedelta) -> timedelta:
        """Return when a job may ask again: after all that were refused before, not all at once."""
        now = self.runtime.monotonic()
        earliest = now + wait.total_seconds()
        place = max(earliest, known.line_ends)
        if place - earliest > LINE.total_seconds():
            place = earliest + self.runtime.uniform(0.0, LINE.total_seconds())
        else:
            known.line_ends = place + 1 / PACE
        apart = known.breaker.wait * self.runtime.uniform(0.0, SPREAD)
        return timedelta(seconds=place - now) + apart

    def _count(self, known: Known, failed: bool, reason: str) -> None:
        known.verdicts.append(failed)
        del known.verdicts[:-MOST]
        if failed:
            known.reason = reason
            calls = known.circuit.calls.add(known.breaker, known.verdicts, self._now(known))
            if is_too_much(known.breaker, calls):
                self.wake()
        if self._resting:
            self.wake()

    def receive(self, wakes: Sequence[Wake]) -> None:
        """Take hints: what they name is asked for before the next call."""
        for wake in wakes:
            if isinstance(wake, BreakerHint) and (known := self._known.get(wake.name)) is not None:
                known.hints += 1
                known.asked_at = NEVER

    def _find(self, name: str) -> Known | None:
        known = self._known.get(name)
        if known is None and (breaker := self._declared.get(name)) is not None:
            known = self._known[name] = Known(name, breaker)
        return known

    def _now(self, known: Known) -> datetime:
        """Return the store's time, as far as this node can tell."""
        if known.store_time is None:
            return self.runtime.utcnow()
        return known.store_time + timedelta(seconds=self.runtime.monotonic() - known.measured_at)

    # Asking and writing

    async def _refresh(self, known: Known) -> None:
        """Ask what others did. When the store does not answer, what is known has to do."""
        async with self._desk:
            if self.runtime.monotonic() - known.asked_at <= FRESH:
                return  # somebody asked while we waited
            try:
                await self._load([known])
            except StoreError:
                known.asked_at = self.runtime.monotonic()

    async def _try(self, known: Known, permit: str) -> timedelta | None:
        """Ask for a trial; return how long to wait when there is none."""
        if (wait := self._refused(known, permit)) is not None:
            return wait
        try:
            async with self._desk:
                return await self._take_permit(known, permit)
        except StoreError:
            self._give_back(known, permit)
        except asyncio.CancelledError:
            self._give_back(known, permit)
            raise
        return AGAIN

    def _refused(self, known: Known, permit: str) -> timedelta | None:
        """Refuse by what is known here: enough for most, and never enough to let one pass."""
        likely = ask(known.circuit, known.breaker, permit, self._now(known), LEASE)
        return None if likely.admitted else likely.wait

    async def _take_permit(self, known: Known, permit: str) -> timedelta | None:
        for _ in range(TURNS):
            # Those who were served before may have taken the last one: no need to ask for it.
            if (wait := self._refused(known, permit)) is not None:
                return wait
            await self._load([known])
            answer = ask(known.circuit, known.breaker, permit, self._now(known), LEASE)
            if not answer.admitted:
                return answer.wait
            if known.circuit.phase is Phase.CLOSED:
                return None
            if await self._save({known: answer.circuit}):
                known.trials[permit] = self.runtime.monotonic()
                return None
        return AGAIN

    def _give_back(self, known: Known, permit: str) -> None:
        """Nobody knows whether it was taken; to give back what was not changes nothing."""
        known.judged.append((permit, Verdict.NEITHER, ""))
        self.wake()

    async def _load(self, some: Sequence[Known]) -> None:
        at, hints = self.runtime.monotonic(), [known.hints for known in some]
        now, rows = await self._store.load_breakers([known.name for known in some])
        # The reply was on its way for some time: rather too late than a trial before its time.
        heard_at = self.runtime.monotonic()
        for known, heard in zip(some, hints, strict=True):
            row, before = rows.get(known.name), known.circuit
            known.learn(row, now, at, heard_at)
            if known.hints != heard:
                known.asked_at = NEVER  # the answer may be older than the hint
            if row is not None and row == known.unsure and known.circuit.epoch != before.epoch:
                self._tell(known, known.circuit)
            known.unsure = None

    async def _save(self, changes: Mapping[Known, Circuit]) -> list[Known]:
        """Write what changed; return those that nobody else has written meanwhile."""
        for known, circuit in changes.items():
            known.unsure = BreakerRow.of(known.name, known.version + 1, circuit)
        rows = [known.unsure for known in changes if known.unsure is not None]
        names = set(await self._store.save_breakers(rows))
        written = [known for known in changes if known.name in names]
        for known in changes:
            known.unsure = None
        for known in written:
            before, after = known.circuit, changes[known]
            known.circuit, known.version = after, known.version + 1
            if after.epoch != before.epoch:
                known.verdicts.clear()
                self._tell(known, after)
        return written

    def _tell(self, known: Known, circuit: Circuit) -> None:
        """Let others know of a new phase."""
        if self._notifier is not None:
            self._notifier.publish([BreakerHint(known.name)])
        self.bus.emit(event_of(known.name, known.breaker, circuit, self.node_id))

    # Reporting

    async def run(self) -> None:
        """Work until stopped, and tell what is left then."""
        await super().run()
        with suppress(StoreError):
            await self._report([known for known in self._known.values() if known.untold])

    def on_trouble(self, error: Exception) -> None:
        """Try again soon: permits last only so long, and others wait for what is to be told."""
        self._pause = min(self._pause, PATIENCE)

    async def run_once(self) -> float:
        """Report what was counted, and ask what others did."""
        self._resting = False
        if not self._introduced:
            await self._introduce()
        now = self.runtime.monotonic()
        await self._report([known for known in self._known.values() if is_due(known, now)])
        if any(known.untold for known in self._known.values()):
            return REPORT
        if any(known.running for known in self._known.values()):
            return POLL
        self._resting = True
        return IDLE

    async def _introduce(self) -> None:
        """Store the breakers that nobody has seen before, so that people can."""
        known = [found for name in self._declared if (found := self._find(name)) is not None]
        async with self._desk:
            await self._load(known)
            await self._save({each: each.circuit for each in known if each.version == 0})
        self._introduced = True

    async def _report(self, some: Sequence[Known]) -> None:
        async with self._desk:
            for _ in range(TURNS):
                if not some:
                    return
                await self._load(some)
                some = await self._write_down(some)

    async def _write_down(self, some: Sequence[Known]) -> list[Known]:
        """Write what these have to tell; return those that somebody else wrote meanwhile."""
        told = {known: (known.verdicts, known.judged) for known in some}
        changes: dict[Known, Circuit] = {}
        for known in some:
            circuit = self._after_all(known)
            known.verdicts, known.judged = [], []
            if circuit != known.circuit:
                changes[known] = circuit
        if not changes:
            return []
        try:
            written = await self._save(changes)
        except StoreError:
            # Calls that may have been counted are not counted again. Trials can be judged twice.
            self._take_back((known, [], told[known][1]) for known in changes)
            raise
        refused = [known for known in changes if known not in written]
        self._take_back((known, *told[known]) for known in refused)
        return refused

    def _after_all(self, known: Known) -> Circuit:
        """Return what a breaker becomes by all that happened here."""
        now, monotonic = self._now(known), self.runtime.monotonic()
        circuit = count(known.circuit, known.breaker, known.verdicts, now, known.reason)
        for permit, verdict, reason in known.judged:
            circuit = judge(circuit, known.breaker, permit, verdict, now, reason)
        old = [permit for permit, since in known.trials.items() if monotonic - since >= RENEW]
        if old:
            known.trials.update((permit, monotonic) for permit in old)
            circuit = renew(circuit, old, now, LEASE)
        return circuit

    def _take_back(
        self, untold: Iterable[tuple[Known, list[bool], list[tuple[str, Verdict, str]]]]
    ) -> None:
        for known, verdicts, judged in untold:
            known.verdicts[:0] = verdicts
            known.judged[:0] = judged
