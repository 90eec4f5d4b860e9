"""What must hold in every run: each rule here is a promise of the README, watched at all times.

Rules are checked where the truth is seen: when a call is sent, when the store has carried it
out, when a task's function begins, and at the end of the run. A broken rule is noted with its
moment and never raised, since the engine would take it for trouble with the store.
"""

from collections.abc import Mapping
from typing import Any, Final
from uuid import UUID

from detent.events import NodeFenced
from detent.model.job import Claim, queue_of
from detent.model.state import LIVE, MOVES, TERMINAL, State, Verb
from detent.stores.memory.tables import (
    UNIQUE,
    Outcome,
    Parked,
    Ready,
    Running,
    Tables,
)
from detent.testing.simulation.history import History, Place, changed, places_of, state_of
from detent.testing.simulation.ledger import Ledger, Run
from detent.testing.simulation.store import Call
from detent.testing.simulation.workload import BY_TASK

ENDS: Final = ("finish_jobs", "settle_jobs", "finish_hooked")
FENCED: Final = (*ENDS, "save_progress", "append_log")
"""Writes in a node's name about single claims: (node, [something with id and fence])."""

Step = tuple[State | None, State | None]

_ENDED: Final[set[Step]] = {
    (State.RUNNING, after) for after in (*TERMINAL, State.PENDING, State.WAITING)
}
_WOKEN: Final[set[Step]] = {(State.WAITING, State.PENDING)}
_CONTROLLED: Final[set[Step]] = {
    (before, after) for (before, _), after in MOVES.items() if State.RUNNING not in (before, after)
}
ALLOWED: Final[Mapping[str, set[Step]]] = {
    "enqueue_jobs": {(None, State.PENDING)},
    "enqueue_keyed": {
        (None, State.PENDING),
        (None, State.WAITING),
        *((live, State.CANCELED) for live in LIVE if live is not State.RUNNING),
        *_WOKEN,
    },
    "claim_jobs": {(State.PENDING, State.RUNNING)},
    "finish_jobs": _ENDED,
    "settle_jobs": _ENDED,
    "finish_hooked": _ENDED | _WOKEN,
    "_commit": _ENDED | _WOKEN,
    "release_claims": {(State.RUNNING, State.PENDING)},
    "rescue": {(State.RUNNING, State.PENDING)},
    "control_job": _CONTROLLED | _WOKEN,
    "join": _WOKEN,
    "adopt_jobs": _WOKEN,
}


class Checker:
    """Watches over one run."""

    def __init__(self, history: History, ledger: Ledger, slots: Mapping[str, int]) -> None:
        self._history = history
        self._ledger = ledger
        self._slots = slots
        self._granted: dict[tuple[UUID, int], UUID] = {}
        """(job, fence) to the node that the claim was given to."""
        self._last_fence: dict[UUID, int] = {}
        self._ends: dict[tuple[UUID, int], int] = {}
        """(job, generation) to how many completions were accepted."""
        self._fenced: dict[UUID, None] = {}
        self._tables = Tables()
        self._cancel_asked: dict[UUID, None] = {}
        self.broken: list[str] = []
        ledger.on_run = self.begun

    def refuse(self, rule: str, about: str) -> None:
        """Note a broken rule."""
        self._history.tell("CHECKER", f"BROKEN: {rule}: {about}")
        self.broken.append(self._history.lines[-1].strip())

    # When a process makes a call

    def sent(self, call: Call) -> None:
        """A node speaks only of claims that were given to it, and not at all once it is fenced."""
        if call.statement == "control_job" and call.args[0] is Verb.CANCEL:
            self._cancel_asked[call.args[1]] = None
        if call.statement not in FENCED:
            return
        node, entries = call.args
        for entry in entries:
            about = f"{call.statement} of {self._history.job(entry.id)} fence {entry.fence}"
            if self._granted.get((entry.id, entry.fence)) != node:
                self.refuse("a node speaks only of its own claims", about)
            if node in self._fenced:
                self.refuse("nothing is written after the fence", about)

    def node_fenced(self, event: NodeFenced) -> None:
        """From here on this incarnation has to be silent."""
        self._fenced[event.node] = None

    # When the store has carried a call out

    def carried_out(self, call: Call, answer: Any, before: Tables, after: Tables) -> None:
        """Check every move that a statement made."""
        self._tables = after
        self._cancel_asked.update((job_id, None) for job_id, _ in after.signals)
        if call.statement == "claim_jobs":
            self._claimed(call.args[0].node, answer, before)
        moved = changed(before, after)
        for job_id in moved:
            places = places_of(after, job_id)
            if len(places) != 1:
                self.refuse("a job has one place", f"{self._history.job(job_id)} has {places}")
                continue
            was = (places_of(before, job_id) or [None])[0]
            self._history.tell(
                call.who,
                f"{call.statement} {self._history.job(job_id)}: "
                f"{self._history.place(was)} -> {self._history.place(places[0])}",
            )
            self._moved(call, job_id, was, places[0])
        if before.keys != after.keys or moved:
            self._check_keys(after)
        if not moved:
            self._tell_other(call, before, after)

    def _tell_other(self, call: Call, before: Tables, after: Tables) -> None:
        for name in ("nodes", "queues", "progress", "log"):
            if getattr(before, name) != getattr(after, name):
                self._history.tell(call.who, f"{call.statement}: {name}")
        for job_id, kind in after.signals:
            if (job_id, kind) not in before.signals:
                self._history.tell(call.who, f"{call.statement} {self._history.job(job_id)}: asked")

    def _claimed(self, node: UUID, claims: list[Claim], before: Tables) -> None:
        for claim in claims:
            about = f"{self._history.job(claim.id)} fence {claim.fence}"
            if claim.fence <= self._last_fence.get(claim.id, 0):
                self.refuse("fences grow", about)
            if claim.id in before.running:
                self.refuse("at most one valid claim", about)
            if before.queues.get(queue_of(claim.lane), False):
                self.refuse("a paused queue rests", about)
            self._last_fence[claim.id] = claim.fence
            self._granted[claim.id, claim.fence] = node

    def _moved(self, call: Call, job_id: UUID, was: Place, now: Place) -> None:
        about = f"{call.statement} {self._history.job(job_id)}"
        step = (state_of(was), state_of(now))
        if step not in ALLOWED.get(call.statement, set()):
            self.refuse("jobs move along the table", f"{about}: {step}")
        if isinstance(was, Running) and call.statement in ENDS:
            self._ended(call, was, now, about)
        if isinstance(now, Outcome):
            key = (job_id, now.generation)
            self._ends[key] = self._ends.get(key, 0) + 1
            if self._ends[key] > 1:
                self.refuse("one completion per job and generation", about)

    def _ended(self, call: Call, was: Running, now: Place, about: str) -> None:
        node, entries = call.args
        said = [each for each in entries if (each.id, each.fence) == (was.place.id, was.fence)]
        if node != was.node or not said:
            self.refuse("an end is accepted from the valid claim only", about)
            return
        place = now if isinstance(now, Ready) else now.place if isinstance(now, Parked) else None
        if place is not None and place.attempt != was.place.attempt + int(said[0].charged):
            self.refuse("a failed try counts once", about)

    def _check_keys(self, tables: Tables) -> None:
        """Of the jobs under one business key only one may be claimed or run."""
        holders: dict[str, list[UUID]] = {}
        for job_id, job in tables.job.items():
            if job.unique_key is not None and (job_id in tables.ready or job_id in tables.running):
                holders.setdefault(job.unique_key, []).append(job_id)
        for key, jobs in holders.items():
            if len(jobs) > 1:
                names = ", ".join(self._history.job(job_id) for job_id in jobs)
                self.refuse("one live job per business key", f"{key}: {names}")

    # When a task's function begins

    def begun(self, run: Run) -> None:
        """Every run has a claim of its own, and it is valid: so nobody else's is."""
        about = f"{self._history.job(run.job)} fence {run.fence} on {run.who}"
        if self._granted.get((run.job, run.fence)) != run.node:
            self.refuse("only claimed jobs run", about)
        if any(each.job == run.job and each.fence == run.fence for each in self._ledger.runs):
            self.refuse("a claim is run once", about)
        if run.attempt > BY_TASK[self._tables.job[run.job].new.task].attempts:
            self.refuse("no more tries than allowed", f"{about}: attempt {run.attempt}")
        # A node stops before its lease ends, so whatever it begins it has the right to.
        if not self._valid(run):
            self.refuse("a run begins with a valid claim", about)
        if any((each.job, each.who) == (run.job, run.who) for each in self._ledger.going):
            self.refuse("a process runs a job once at a time", about)
        here = (run.who, run.queue)
        mates = [each for each in self._ledger.going if (each.who, each.queue) == here]
        if len(mates) >= self._slots[run.queue]:
            self.refuse("never more than its slots", f"{about}: {len(mates) + 1} in {run.queue}")

    def _valid(self, run: Run) -> bool:
        claim = self._tables.running.get(run.job)
        return claim is not None and (claim.fence, claim.node) == (run.fence, run.node)

    # At the end

    def finally_holds(self, tables: Tables, acknowledged: list[UUID]) -> None:
        """Check what must be so when everything has come to rest."""
        for job_id in acknowledged:
            if job_id not in tables.job:
                self.refuse("a committed enqueue is never lost", self._history.job(job_id))
        for job_id in tables.running:
            self.refuse("nothing is held after a drain", self._history.job(job_id))
        for job_id in tables.job:
            self._ended_well(tables, job_id)
        for (kind, key), held in tables.keys.items():
            if kind == UNIQUE and held.job in tables.outcome:
                self.refuse("an end frees the business key", key)
        left = [*tables.progress, *(job_id for job_id, _ in tables.signals)]
        for job_id in left:
            if job_id in tables.outcome:
                self.refuse("an end leaves nothing behind", self._history.job(job_id))

    def _ended_well(self, tables: Tables, job_id: UUID) -> None:
        task = tables.job[job_id].new.task
        about = f"{self._history.job(job_id)} ({task})"
        outcome = tables.outcome.get(job_id)
        if outcome is None:
            if not waits_for_a_stranger(tables, job_id):
                place = self._history.place(places_of(tables, job_id)[0])
                self.refuse("every job comes to an end", f"{about}: {place}")
            return
        for generation in range(1, outcome.generation + 1):
            if self._ends.get((job_id, generation)) != 1:
                self.refuse("one completion per job and generation", about)
        self._check_outcome(tables, outcome, about)
        effects = self._ledger.effects.get((job_id, outcome.generation), 0)
        if task == "payment" and effects != int(outcome.state is State.SUCCEEDED):
            self.refuse("effect and completion are one", f"{about}: {effects} effects")

    def _check_outcome(self, tables: Tables, outcome: Outcome, about: str) -> None:
        job_id = outcome.id
        kind = BY_TASK[tables.job[job_id].new.task]
        asked = job_id in self._cancel_asked or outcome.superseded_by is not None
        if outcome.state not in kind.ends and not (asked and outcome.state is State.CANCELED):
            self.refuse("a job ends as its task says", f"{about}: {outcome.state}")
        charged = [
            each
            for each in tables.attempts.get(job_id, ())
            if each.generation == outcome.generation and each.kind in ("failed", "timed_out")
        ]
        if len(charged) > kind.attempts or len(charged) != len({each.number for each in charged}):
            self.refuse("no more tries than allowed", f"{about}: {len(charged)} charged")
        ran = [each for each in self._ledger.runs if each.job == job_id]
        if outcome.state is State.SUCCEEDED and not any(
            run.fence == outcome.fence and run.generation == outcome.generation for run in ran
        ):
            self.refuse("a success has run", about)


def waits_for_a_stranger(tables: Tables, job_id: UUID) -> bool:
    """Whether a job waits for a node that knows its task, or is to replace one that does."""
    if tables.job[job_id].new.task == "stranger":
        return True
    parked = tables.parked.get(job_id)
    waits_for = None if parked is None else parked.waits_for
    return waits_for is not None and waits_for_a_stranger(tables, waits_for)
