"""What happened in a run, as lines of text: equal runs have equal lines, and so an equal hash."""

import dataclasses
import hashlib
from collections.abc import Callable, Iterable
from datetime import datetime
from typing import Any, Final
from uuid import UUID

from detent import events
from detent.events import Bus
from detent.model.state import State
from detent.stores.memory.tables import PAUSED, Outcome, Parked, Ready, Running, Tables
from detent.testing.virtual import START

KINDS: Final = [
    kind
    for kind in vars(events).values()
    if isinstance(kind, type) and dataclasses.is_dataclass(kind)
]

Place = Ready | Running | Parked | Outcome | None
"""Where a job stands: its row, whichever table that is in; None before it was enqueued."""


class History:
    """The lines of one run. Ids get short names in the order in which they appear."""

    def __init__(self, now: Callable[[], float]) -> None:
        self.now = now
        self._names: dict[UUID, str] = {}
        self._nodes = 0
        self.lines: list[str] = []
        self.sealed = False
        """Whether the run is over: what comes now does not count."""
        self.counts: dict[str, int] = {}
        """How often each kind of event was told."""

    def tell(self, who: str, text: str) -> None:
        """Add a line."""
        if not self.sealed:
            self.lines.append(f"{self.now():11.6f} {who:8} {text}")

    def digest(self) -> str:
        """Return the SHA-256 of everything that happened."""
        return hashlib.sha256("\n".join(self.lines).encode()).hexdigest()

    def listen(self, who: str, bus: Bus) -> None:
        """Tell every event of a bus."""

        def told(event: Any) -> None:
            if self.sealed:
                return
            name = type(event).__name__
            self.counts[name] = self.counts.get(name, 0) + 1
            values = [
                f"{each}={self.shown(getattr(event, each), each)}" for each in event.__slots__
            ]
            self.tell(who, " ".join([name, *values]))

        listen_to_all(bus, told)

    def shown(self, value: object, field: str = "") -> str:
        """Return a value as text, without anything that differs between equal runs."""
        if isinstance(value, UUID):
            return self.node(value) if field == "node" else self.job(value)
        return repr(value)

    def job(self, job_id: UUID) -> str:
        """Return the short name of a job."""
        return self._names.setdefault(job_id, f"j{len(self._names) - self._nodes + 1}")

    def node(self, incarnation: UUID) -> str:
        """Return the short name of a node's incarnation."""
        if incarnation not in self._names:
            self._nodes += 1
            self._names[incarnation] = f"n{self._nodes}"
        return self._names[incarnation]

    def place(self, place: Place) -> str:
        """Return where a job stands, in a few words."""
        match place:
            case None:
                return "nowhere"
            case Ready():
                return f"pending(due {_seconds(place.due_at)}, attempt {place.attempt})"
            case Running():
                return f"running(fence {place.fence}, {self.node(place.node)})"
            case Parked():
                return f"{state_of(place)}({place.reason})"
            case Outcome():
                return f"{place.state}(generation {place.generation}, attempt {place.attempt})"


def _seconds(moment: datetime) -> str:
    return f"{(moment - START).total_seconds():.3f}"


def listen_to_all(bus: Bus, listener: Callable[[Any], None]) -> None:
    """Subscribe to every type of event there is."""
    for kind in KINDS:
        bus.subscribe(kind, listener)


def state_of(place: Place) -> State | None:
    """Return the state that a place means."""
    match place:
        case Ready():
            return State.PENDING
        case Running():
            return State.RUNNING
        case Parked():
            return State.PAUSED if place.reason == PAUSED else State.WAITING
        case Outcome():
            return place.state
        case _:
            return None


def places_of(tables: Tables, job_id: UUID) -> list[Place]:
    """Return all places that a job has; it should be one."""
    found = (
        tables.ready.get(job_id),
        tables.running.get(job_id),
        tables.parked.get(job_id),
        tables.outcome.get(job_id),
    )
    return [place for place in found if place is not None]


PLACES: Final = ("ready", "running", "parked", "outcome")


def moved(before: Tables, after: Tables, names: Iterable[str] = PLACES) -> list[UUID]:
    """Return the jobs whose place differs in one of these tables, in the order of their ids."""
    ids: dict[UUID, None] = {}
    for name in names:
        old, new = getattr(before, name), getattr(after, name)
        ids.update((job_id, None) for job_id in new if old.get(job_id) != new[job_id])
        ids.update((job_id, None) for job_id in old if job_id not in new)
    return sorted(ids)
