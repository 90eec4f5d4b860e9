"""The rules about claims: at most one is valid, only that one ends a job, and each once."""

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any, Final
from uuid import UUID

from detent.errors import ClaimLost
from detent.model.job import Claim, Settlement, queue_of
from detent.model.rescue import UNSTARTED
from detent.model.state import LIVE, MOVES, TERMINAL, State
from detent.stores.memory.nodes import ACTIVE
from detent.stores.memory.tables import IDEMPOTENCY, Outcome, Parked, Ready, Running, Tables
from detent.testing.simulation.book import Book, Granted
from detent.testing.simulation.distant import Flight
from detent.testing.simulation.history import Place, places_of, state_of

ENDS: Final = ("finish_jobs", "settle_jobs", "finish_hooked")

Step = tuple[State | None, State | None]

_ENDED: Final[set[Step]] = {
    (State.RUNNING, after) for after in (*TERMINAL, State.PENDING, State.WAITING)
}
# Who waited for a job that was itself waiting waits for the one before.
_WOKEN: Final[set[Step]] = {(State.WAITING, State.PENDING), (State.WAITING, State.WAITING)}
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
    "fire": {
        (None, State.PENDING),
        (None, State.WAITING),
        *((live, State.CANCELED) for live in LIVE if live is not State.RUNNING),
        *_WOKEN,
    },
    "claim_jobs": {(State.PENDING, State.RUNNING)},
    "claim_gated": {(State.PENDING, State.RUNNING)},
    "claim_family": {(State.PENDING, State.RUNNING)},
    "finish_jobs": _ENDED,
    "settle_jobs": _ENDED,
    "finish_hooked": _ENDED | _WOKEN,
    "_commit": _ENDED | _WOKEN,
    "release_claims": {(State.RUNNING, State.PENDING)},
    "rescue": {
        *((State.RUNNING, after) for after in (State.PENDING, State.CANCELED, State.FAILED)),
        *_WOKEN,
    },
    "control_job": _CONTROLLED | _WOKEN,
    "join": _WOKEN,
    "adopt_jobs": _WOKEN,
}


def claims_in(flight: Flight) -> Sequence[Claim]:
    """Return the claims that a call brought."""
    if flight.answer is None:
        return ()
    claims: Sequence[Claim] = (
        flight.answer if flight.statement == "claim_jobs" else flight.answer.claims
    )
    return claims


class ClaimRules:
    """Looks at what the store does with claims."""

    def __init__(self, book: Book) -> None:
        self._book = book
        self._last_fence: dict[UUID, int] = {}
        self._keys: dict[tuple[str, str], UUID] = {}
        """Idempotency key to the first job under it; no key expires within a run."""

    def claimed(self, flight: Flight, now: datetime) -> None:
        """Look at new claims."""
        book, node = self._book, flight.args[0].node
        before = book.before
        row = before.nodes.get(node)
        for claim in claims_in(flight):
            about = f"{book.history.job(claim.id)} fence {claim.fence}"
            if row is None or row.state != ACTIVE or row.lease_until <= now:
                book.refuse("only the living claim", about)
            if claim.fence <= self._last_fence.get(claim.id, 0):
                book.refuse("fences grow", about)
            if claim.id in before.running:
                book.refuse("at most one valid claim", about)
            if before.queues.get(queue_of(claim.lane), False):
                book.refuse("a paused queue rests", about)
            self._last_fence[claim.id] = claim.fence
            book.granted[claim.id, claim.fence] = Granted(node, claim.crashes)

    def moved(self, flight: Flight, job_id: UUID, was: Place, now: Place, tables: Tables) -> None:
        """Look at one job that has gone from one place to another."""
        book, statement = self._book, flight.statement
        about = f"{statement} {book.history.job(job_id)}"
        step = (state_of(was), state_of(now))
        if step not in ALLOWED.get(statement, set()):
            book.refuse("jobs move along the table", f"{about}: {step}")
        if isinstance(was, Running):
            if statement in ENDS:
                self._ended(flight, was, now, about)
            elif statement == "release_claims":
                self._released(flight, was, now, about)
            elif statement == "_commit":
                book.accepted[job_id, was.fence] = None
            elif statement == "rescue":
                self._rescued(was, now, tables, about)
            if isinstance(now, Ready | Parked):
                key = (job_id, was.place.generation)
                book.returns[key] = book.returns.get(key, 0) + 1
        if isinstance(now, Outcome):
            key = (job_id, now.generation)
            book.ends[key] = book.ends.get(key, 0) + 1
            if book.ends[key] > 1:
                book.refuse("one completion per job and generation", about)

    def controlled(self, flight: Flight) -> None:
        """Look at what somebody wanted done only if a job was as he had seen it."""
        verb, job_id, change = flight.args
        if flight.error is not None or change.expected is None:
            return
        was = (places_of(self._book.before, job_id) or [None])[0]
        if state_of(was) is not change.expected or _generation(was) != change.generation:
            about = f"{verb} {self._book.history.job(job_id)}"
            self._book.refuse("only as it was expected to be", about)

    def _ended(self, flight: Flight, was: Running, now: Place, about: str) -> None:
        node, entries = flight.args
        said = [each for each in entries if (each.id, each.fence) == (was.place.id, was.fence)]
        if node != was.node or not said:
            self._book.refuse("an end is accepted from the valid claim only", about)
            return
        key = (was.place.id, was.fence)
        self._book.accepted[key] = None
        charged = isinstance(said[0], Settlement) and said[0].charged
        if charged and key not in self._book.ledger.runs:
            self._book.refuse("only what has run is charged", about)
        place = _place_of(now)
        if place is not None and place.attempt != was.place.attempt + int(charged):
            self._book.refuse("a failed try counts once", about)

    def _released(self, flight: Flight, was: Running, now: Place, about: str) -> None:
        node, claims = flight.args
        if node != was.node or (was.place.id, was.fence) not in list(claims):
            self._book.refuse("only the valid claim is released", about)
        if _place_of(now) != was.place:
            self._book.refuse("what is released keeps its place", about)
        key = (was.place.id, was.fence)
        run = self._book.ledger.runs.get(key)
        knows = run is not None and run.returned and not run.stopped
        if knows and node not in self._book.leaving and key not in self._book.lost.accepted:
            # The claim is the node's own, and it knows how the run has ended.
            self._book.refuse("a run that has ended is not run again", about)

    def _rescued(self, was: Running, now: Place, tables: Tables, about: str) -> None:
        book = self._book
        place = _place_of(now)
        if place is not None and place.attempt != was.place.attempt:
            book.refuse("a crash is no failed try", about)
        counted = 1 if place is None else place.crashes - was.place.crashes
        node = tables.nodes.get(was.node)
        tried = [
            each
            for each in tables.attempts.get(was.place.id, ())
            if each.generation == was.place.generation
        ]
        if place is not None and node is not None and node.fenced:
            if counted != 0:
                book.refuse("what its node stopped itself is no crash", about)
        elif tried and tried[-1].kind == UNSTARTED:
            if counted != 0 or sum(each.kind == UNSTARTED for each in tried) > 1:
                book.refuse("what has not begun is charged nothing, once", about)
        elif counted != 1:
            book.refuse("a crash counts once", about)
        if isinstance(now, Outcome) and now.state is State.FAILED:
            alone = sum(each.alone for each in tried)
            if alone != book.cluster.max_crashes:
                book.refuse("so many crashes and no more", f"{about}: {alone}")

    # Writes that came too late

    def count_refused(self, flight: Flight) -> None:
        """Count writes about claims that are no longer valid, which nobody may notice."""
        book = self._book
        if flight.statement == "_commit":
            book.refused += isinstance(flight.error, ClaimLost)
            return
        node, entries = flight.args
        for entry in entries:
            running = book.before.running.get(entry.id)
            valid = running is not None and (running.fence, running.node) == (entry.fence, node)
            if not valid and (entry.id, entry.fence) not in book.accepted:
                book.refused += 1

    def side_written(self, flight: Flight, tables: Tables) -> None:
        """Look at progress and log lines: only a valid claim adds to them."""
        node, entries = flight.args
        name = "progress" if flight.statement == "save_progress" else "log"
        old, new = getattr(self._book.before, name), getattr(tables, name)
        for job_id in {entry.id: None for entry in entries}:
            if old.get(job_id) == new.get(job_id):
                continue
            running = tables.running.get(job_id)
            said = [each.fence for each in entries if each.id == job_id]
            if running is None or running.node != node or running.fence not in said:
                about = f"{flight.statement} {self._book.history.job(job_id)}"
                self._book.refuse("only a valid claim writes", about)

    # Keys

    def check_keys(self, tables: Tables, jobs: Sequence[UUID]) -> None:
        """Of the jobs under one business key only one may be claimed or run."""
        book = self._book
        holders: dict[tuple[str, str], list[UUID]] = {}
        for job_id, job in tables.job.items():
            if job.unique_key is not None and (job_id in tables.ready or job_id in tables.running):
                holders.setdefault((job.new.task, job.unique_key), []).append(job_id)
        for (_, key), found in holders.items():
            if len(found) > 1:
                names = ", ".join(book.history.job(job_id) for job_id in found)
                book.refuse("one live job per business key", f"{key}: {names}")
        for job_id in jobs:
            job = tables.job[job_id]
            key_of: Any = job.idempotency_key
            named = (job.new.task, key_of)
            if key_of is not None and self._keys.setdefault(named, job_id) != job_id:
                about = f"{IDEMPOTENCY} {key_of}: {book.history.job(job_id)}"
                book.refuse("one job per idempotency key", about)


def _generation(place: Place) -> int | None:
    if isinstance(place, Running | Parked):
        return place.place.generation
    return None if place is None else place.generation


def _place_of(now: Place) -> Ready | None:
    if isinstance(now, Ready):
        return now
    return now.place if isinstance(now, Parked) else None
