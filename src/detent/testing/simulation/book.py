"""What those who watch over a run know together, and where they write down what was wrong."""

from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import datetime
from typing import Final, NamedTuple
from uuid import UUID

from detent.config import ClusterConfig
from detent.model.lease import ends_at, witnessed_since
from detent.model.rescue import is_suspect
from detent.stores.memory.nodes import DEAD
from detent.stores.memory.tables import Node, Tables
from detent.testing.simulation.history import History
from detent.testing.simulation.ledger import Ledger, Run
from detent.testing.simulation.process import ALWAYS, NEVER, Process
from detent.testing.virtual import START

# Services wait up to ten seconds after trouble; then claims are compared twice.
FOUND_OUT: Final = 13.0


class Granted(NamedTuple):
    """A claim as the store gave it."""

    node: UUID
    crashes: int


@dataclass(slots=True)
class Lost:
    """What the store has given or accepted and then forgotten, with the end of its history.

    It is nobody's fault that this is gone, or that others have not heard of it yet.
    """

    jobs: dict[UUID, None] = field(default_factory=dict)
    """Those that were enqueued."""
    accepted: dict[tuple[UUID, int], None] = field(default_factory=dict)
    """(job, fence) of the claims whose end was accepted."""
    claims: dict[tuple[UUID, int], float] = field(default_factory=dict)
    """(job, fence) of those that were given, and when they were forgotten."""
    beats: dict[UUID, None] = field(default_factory=dict)
    """Nodes whose last heartbeat is forgotten, until the next."""
    terms: dict[tuple[str, int], None] = field(default_factory=dict)
    """(role, term) of those that were begun or confirmed, until they are confirmed."""
    locks: dict[tuple[str, int], float] = field(default_factory=dict)
    """(lock, fence) of those that were got or renewed, and when that was forgotten."""


@dataclass(slots=True)
class Book:
    """The facts of one run."""

    history: History
    ledger: Ledger
    cluster: ClusterConfig
    before: Tables = field(default_factory=Tables)
    """Everything the store knew before the statement that is being looked at, or knows now."""
    granted: dict[tuple[UUID, int], Granted] = field(default_factory=dict)
    """(job, fence) to whom the claim was given."""
    accepted: dict[tuple[UUID, int], None] = field(default_factory=dict)
    """(job, fence) of the claims whose end was accepted from their node."""
    ends: dict[tuple[UUID, int], int] = field(default_factory=dict)
    """(job, generation) to how many completions were accepted."""
    returns: dict[tuple[UUID, int], int] = field(default_factory=dict)
    """(job, generation) to how often it went back to be run again."""
    processes: dict[UUID, Process] = field(default_factory=dict)
    """Incarnation to the process that is, or was, that node."""
    incarnations: dict[Process, UUID] = field(default_factory=dict)
    """Process to the incarnation that it joined as last."""
    slandered: dict[UUID, None] = field(default_factory=dict)
    """Nodes that somebody declared dead who could not know; they hear of it soon."""
    leaving: dict[UUID, None] = field(default_factory=dict)
    """Nodes that drain: what would not stop in time is given back, whatever becomes of it."""
    cancel_asked: dict[UUID, None] = field(default_factory=dict)
    lost: Lost = field(default_factory=Lost)
    broke: dict[Process, float] = field(default_factory=dict)
    """Process to when it last saw that something is wrong with the store."""
    store_well_since: Callable[[], float] = lambda: ALWAYS
    broken: list[str] = field(default_factory=list)
    refused: int = 0
    """How many writes came too late and were refused."""
    rescued: int = 0
    outage: tuple[float, float] = (ALWAYS, ALWAYS)
    """From when to when the store was away, the last time."""
    able_since: float = NEVER
    """Since when there has been somebody who can do all that a node does, without a break."""
    delays: list[float] = field(default_factory=list)
    """For each job that somebody was able to rescue: seconds from the end of the lease to it."""

    def could_help(self, moment: float) -> bool:
        """Tell whether somebody was able, and had heard of a lease that ended at that moment."""
        beat = self.cluster.heartbeat_interval.total_seconds()
        return self.able_since < moment - beat - 1.0

    def refuse(self, rule: str, about: str) -> None:
        """Note a broken rule; it is never raised, for the engine would take it for trouble."""
        if not self.history.sealed:
            self.history.tell("CHECKER", f"BROKEN: {rule}: {about}")
            self.broken.append(self.history.lines[-1].strip())

    def must_know(self, process: Process, forgotten: float) -> bool:
        """Tell whether a process has had the time to find out what the store has forgotten.

        It compares after trouble. A process that has seen none looks every minute.
        """
        seen = self.broke.get(process, ALWAYS)
        heard = max(process.well_since, self.store_well_since(), forgotten) + FOUND_OUT
        return seen >= self.outage[0] and heard < self.history.now()

    def excuse_run(self, run: Run) -> None:
        """Let a job be run once more: the claim of this run is forgotten."""
        key = (run.job, run.generation)
        self.returns[key] = self.returns.get(key, 0) + 1

    def is_aware(self, process: Process) -> bool:
        """Tell whether a process must have noticed by now that it lost its rights."""
        return process.aware and self.incarnations.get(process) not in self.slandered

    def is_suspect(self, crashes: int) -> bool:
        """Tell whether one more crash may be the last of a job."""
        return is_suspect(crashes, self.cluster.max_crashes)


def seconds(moment: datetime) -> float:
    """Return the virtual second of a moment of the store's clock."""
    return (moment - START).total_seconds()


def lease_ended(tables: Tables, row: Node, now: datetime) -> float:
    """Return the virtual second at which a lease was over, for those who have seen it run out."""
    living = [node.pulse for node in tables.nodes.values() if node.state != DEAD]
    return seconds(ends_at(row.pulse, witnessed_since(living, now)))
