"""What must hold in every run: each rule is a promise of the README, watched at all times.

Rules are checked where the truth is seen: when a call is sent, when the store has carried it
out, when a task's function begins, as time goes by, and at the end of the run.
"""

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any, Final
from uuid import UUID

from detent.errors import StoreUnavailable
from detent.events import (
    Bus,
    ClaimWasLost,
    FinishGaveUp,
    HookFailed,
    NodeDraining,
    NodeFenced,
    NodeStopped,
    StoreTrouble,
    StuckCoroutine,
)
from detent.model.state import Verb
from detent.spi.notifier import Hint, SignalHint, Wake
from detent.spi.rescue import Rescue
from detent.stores.memory.tables import Ready, Running, Tables
from detent.testing.simulation.book import Book
from detent.testing.simulation.breakers import BreakerRules
from detent.testing.simulation.claims import ENDS, ClaimRules, claims_in
from detent.testing.simulation.distant import PROBLEMS, Flight
from detent.testing.simulation.history import PLACES, moved, places_of
from detent.testing.simulation.leaders import LeaderRules
from detent.testing.simulation.leases import LeaseRules
from detent.testing.simulation.ledger import Run
from detent.testing.simulation.limits import LimitRules
from detent.testing.simulation.order import OrderRules
from detent.testing.simulation.outside import OutboxRules
from detent.testing.simulation.process import Process
from detent.testing.simulation.runs import RunRules
from detent.testing.simulation.schedules import ScheduleRules
from detent.testing.simulation.tail import Mark, Tail

TOLD: Final = ("nodes", "queues", "progress", "log", "leaders", "locks")
UNDER_A_TERM: Final = ("forget_locks", "save_daemon")
SIDE_WRITES: Final = ("save_progress", "append_log")
FENCED: Final = (*ENDS, *SIDE_WRITES)
"""Writes in a node's name about single claims: (node, [something with id and fence])."""

WATCHED: Final = (
    *PLACES,
    "nodes",
    "keys",
    "signals",
    "progress",
    "log",
    "queues",
    "leaders",
    "locks",
    "schedules",
    "schedule_slots",
)
OUTBOX: Final = ("events_delivered", "prune_events", "put_off_event", "take_events")
"""They write, but nothing that is looked at: the outbox is known by who hears of it."""
READS: Final = (
    "attempts",
    "breakers",
    "check_claim",
    "claims_of",
    "due_schedules",
    "ended",
    "get_calendars",
    "get_jobs",
    "get_schedules",
    "gated_lanes",
    "leaders",
    "limits",
    "list_jobs",
    "list_schedules",
    "load_args",
    "load_breakers",
    "log_of",
    "look",
    "needy_lanes",
    "next_due",
    "next_fire",
    "nodes",
    "queues",
    "signals_for",
    "stranded_schedules",
)
SCOPE: Final[Mapping[str, Sequence[str]]] = {
    **dict.fromkeys((*READS, *OUTBOX), ()),
    "beat": ("nodes",),
    "acquire_lock": ("locks",),
    "elect": ("leaders",),
    "forget_locks": ("locks",),
    "release_lock": ("locks",),
    "renew_lock": ("locks",),
    "resign": ("leaders",),
    "save_breakers": ("breakers",),
    "save_daemon": ("leaders",),
}
"""Where statements write; the others may write anywhere. To look costs more than to write."""
NOTHING: Final[Mapping[str, Any]] = {
    "adopt_jobs": 0,
    "forget_nodes": 0,
    "rescue": Rescue([], []),
}
"""Answers that say that nothing was done. Should it not be true, the next look will tell."""
CLAIMS: Final = ("claim_jobs", "claim_gated", "claim_family")
NO_ANSWER: Final = object()


def _did_nothing(flight: Flight) -> bool:
    if flight.statement in CLAIMS:
        return not claims_in(flight)
    return bool(NOTHING.get(flight.statement, NO_ANSWER) == flight.answer)


class Checker:
    """Watches over one run."""

    def __init__(self, book: Book, slots: Mapping[str, int]) -> None:
        self._book = book
        self._claims = ClaimRules(book)
        self.leases = LeaseRules(book)
        self.leaders = LeaderRules(book)
        self.schedules = ScheduleRules(book)
        self.breakers = BreakerRules(book)
        self.outbox = OutboxRules(book)
        self.order = OrderRules(book)
        self._limits = LimitRules(book)
        self._runs = RunRules(book, slots)
        self._fenced: dict[UUID, None] = {}
        self._hints: dict[Flight, list[Wake]] = {}
        self.tail = Tail(
            book,
            (
                (self._claims, ("_keys",)),
                (self.leases, ("_renewed",)),
                (self.leaders, ("_last_term",)),
                (self.schedules, ("_jobs", "_slots", "_known")),
                (self.breakers, ("_trials",)),
                (self.outbox, ("ends",)),
                (self._limits, ("_put_back",)),
            ),
        )
        book.ledger.on_run = self._begun
        book.ledger.on_served = self._served

    def listen(self, process: Process, bus: Bus) -> None:
        """Hear what a process has to tell."""
        bus.subscribe(NodeStopped, lambda _event: process.end())
        bus.subscribe(NodeFenced, self._node_fenced)
        bus.subscribe(NodeDraining, self._node_draining)
        bus.subscribe(StoreTrouble, self._trouble)
        bus.subscribe(FinishGaveUp, lambda event: self._gave_up(process, event))
        bus.subscribe(HookFailed, self._hook_failed)
        bus.subscribe(StuckCoroutine, lambda event: self._gave_up_call(process, event))
        bus.subscribe(ClaimWasLost, lambda event: self._claim_lost(process, event))

    def _begun(self, run: Run) -> None:
        """Look at a task's function that begins."""
        self._runs.begun(run)
        self.breakers.begun(run)
        self._served(run.job, run.fence, run.node)

    def _served(self, job_id: UUID, fence: int, node: UUID) -> None:
        """Look at a function that begins, or would begin but for a worker."""
        if node in self._book.leaving:
            about = f"{self._book.history.job(job_id)} fence {fence}"
            self._book.refuse("a draining node begins nothing", about)

    def _node_draining(self, event: NodeDraining) -> None:
        self._book.leaving[event.node] = None
        self.leases.drains(event.node)

    def _node_fenced(self, event: NodeFenced) -> None:
        """From here on this incarnation has to be silent, but for the ends that it knows."""
        self._fenced[event.node] = None
        for run in self._book.ledger.going_on(self._book.processes[event.node]):
            run.stopped = run.stopped or (run.node == event.node and not run.given_up)
        self.leases.fenced(event.node, event.reason)

    def _gave_up_call(self, process: Process, event: StuckCoroutine) -> None:
        """Its end is known from here on, and may be written after a fence."""
        for run in self._book.ledger.going_on(process):
            run.given_up = run.given_up or (run.job, run.node) == (event.job_id, event.node)

    def go_back(self, mark: Mark, lost: Tables) -> None:
        """The store goes on from an earlier moment, and has lost what it is like now."""
        ends = self.outbox.ends
        self.tail.go_back(mark, lost)
        self.outbox.forget(ends)
        self.breakers.set_back()

    def _claim_lost(self, process: Process, event: ClaimWasLost) -> None:
        for run in self._book.ledger.going_on(process):
            run.stopped = run.stopped or (run.job, run.node) == (event.job_id, event.node)

    def broke(self, process: Process) -> None:
        """See `Witness.broke`."""
        self._book.broke[process] = self._book.history.now()

    def _trouble(self, event: StoreTrouble) -> None:
        known = (*PROBLEMS, StoreUnavailable.__name__)
        if not any(problem in event.error for problem in known):
            self._unexpected(f"{event.where}: {event.error}")

    def _gave_up(self, process: Process, event: FinishGaveUp) -> None:
        """Only a drain gives up ends: it is over before a store that is away comes back."""
        if self._book.incarnations.get(process) not in self._book.leaving:
            self._unexpected(event.error)

    def _hook_failed(self, event: HookFailed) -> None:
        if event.name != "drain":
            self._unexpected(f"{event.name}: {event.error}")

    def _unexpected(self, what: str) -> None:
        self._book.refuse("nothing unexpected is raised", what)

    def crashed(self, name: str, error: BaseException) -> None:
        """A task of the engine ended with an error that nobody caught."""
        self._unexpected(f"{name}: {error!r}")

    # When a process makes a call

    def sent(self, flight: Flight) -> None:
        """A node speaks only of claims that were given to it.

        Once it is fenced it speaks only of ends that it knew before.
        """
        if flight.statement == "control_job" and flight.args[0] is Verb.CANCEL:
            self._book.cancel_asked[flight.args[1]] = None
        if flight.statement not in FENCED:
            return
        node, entries = flight.args
        for entry in entries:
            about = f"{flight.statement} of {self._book.history.job(entry.id)} fence {entry.fence}"
            granted = self._book.granted.get((entry.id, entry.fence))
            if granted is None or granted.node != node:
                self._book.refuse("a node speaks only of its own claims", about)
            run = self._book.ledger.runs.get((entry.id, entry.fence))
            knew = flight.statement in ENDS and (run is None or not run.stopped)
            if node in self._fenced and not knew:
                self._book.refuse("nothing is written after the fence", about)

    # When the store has carried a call out

    def carried_out(self, flight: Flight, tables: Tables, now: datetime) -> None:
        """Check everything that a statement changed."""
        if isinstance(flight.error, AssertionError):
            self._unexpected(f"{flight.statement}: {flight.error!r}")
        names = SCOPE.get(flight.statement, WATCHED)
        if not names or _did_nothing(flight):
            return
        if flight.statement == "control_job":
            self._claims.controlled(flight)
        before = self._book.before
        changed = [name for name in names if getattr(before, name) != getattr(tables, name)]
        if "nodes" in changed or flight.statement == "join":
            self.leases.carried_out(flight, tables, now)
        if "leaders" in changed:
            self.leaders.carried_out(flight, tables, now)
        self.breakers.carried_out(flight, tables, now)
        self.schedules.carried_out(flight, tables, changed)
        jobs = moved(before, tables, [name for name in changed if name in PLACES])
        self._look_at_claims(flight, tables, now)
        for job_id in jobs:
            self._moved(flight, job_id, tables)
        if jobs or "keys" in changed:
            self._claims.check_keys(tables, jobs)
        if not jobs:
            self._tell_other(flight, tables, changed)
        self._note_hints(flight, tables, jobs)
        self._book.cancel_asked.update((job_id, None) for job_id, _ in tables.signals)
        for name in changed:
            setattr(before, name, dict(getattr(tables, name)))
        before.job, before.attempts = tables.job, tables.attempts

    def _look_at_claims(self, flight: Flight, tables: Tables, now: datetime) -> None:
        if flight.statement in CLAIMS:
            self._claims.claimed(flight, now)
            self._limits.claimed(claims_in(flight), tables)
            self.order.claimed(flight, claims_in(flight), tables, now)
        elif flight.statement == "rescue" and flight.error is None:
            self.leases.rescued(flight, tables, now)
        elif flight.statement == "_commit" or flight.statement in FENCED:
            self._claims.count_refused(flight)
        elif flight.statement == "acquire_lock" and flight.error is None:
            self.leaders.locked(flight, now)
        elif flight.statement in UNDER_A_TERM:
            self.leaders.written(flight)
        if flight.statement in SIDE_WRITES:
            self._claims.side_written(flight, tables)

    def _moved(self, flight: Flight, job_id: UUID, tables: Tables) -> None:
        history = self._book.history
        places = places_of(tables, job_id)
        if len(places) != 1:
            where = [type(place).__name__ for place in places]
            self._book.refuse("a job has one place", f"{history.job(job_id)}: {where}")
            return
        was = (places_of(self._book.before, job_id) or [None])[0]
        history.tell(
            flight.process.name,
            f"{flight.statement} {history.job(job_id)}: "
            f"{history.place(was)} -> {history.place(places[0])}",
        )
        self._claims.moved(flight, job_id, was, places[0], tables)
        if isinstance(was, Running) and flight.statement != "release_claims":
            self._limits.ended(was, places[0], tables)
        self.outbox.moved(job_id, tables)

    def _tell_other(self, flight: Flight, tables: Tables, changed: Sequence[str]) -> None:
        history, before = self._book.history, self._book.before
        for name in changed:
            if name in TOLD:
                history.tell(flight.process.name, f"{flight.statement}: {name}")
        for job_id, kind in tables.signals:
            if (job_id, kind) not in before.signals:
                history.tell(
                    flight.process.name, f"{flight.statement} {history.job(job_id)}: asked"
                )

    # What nodes are told, as a database would tell them

    def _note_hints(self, flight: Flight, tables: Tables, jobs: Sequence[UUID]) -> None:
        wakes: list[Wake] = []
        if not flight.statement.startswith("enqueue"):
            for job_id in jobs:
                place = tables.ready.get(job_id)
                if isinstance(place, Ready):
                    wakes.append(Hint(place.lane, place.priority, place.due_at, place.id))
        if flight.statement in ("control_job", "enqueue_keyed", "fire"):
            for job_id, kind in tables.signals:
                if (job_id, kind) not in self._book.before.signals and job_id in tables.running:
                    wakes.append(SignalHint(tables.running[job_id].node))
        if wakes:
            self._hints[flight] = wakes

    def hints(self, flight: Flight) -> Sequence[Wake]:
        """Return the wake-ups that follow from a call, to be sent when it has come back."""
        return self._hints.pop(flight, ())
