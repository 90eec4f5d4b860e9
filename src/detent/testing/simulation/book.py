"""What those who watch over a run know together, and where they write down what was wrong."""

from dataclasses import dataclass, field
from datetime import datetime
from typing import NamedTuple
from uuid import UUID

from detent.config import ClusterConfig
from detent.model.lease import ends_at, witnessed_since
from detent.model.rescue import is_suspect
from detent.stores.memory.nodes import DEAD
from detent.stores.memory.tables import Node, Tables
from detent.testing.simulation.history import History
from detent.testing.simulation.ledger import Ledger
from detent.testing.simulation.process import ALWAYS, NEVER, Process
from detent.testing.virtual import START


class Granted(NamedTuple):
    """A claim as the store gave it."""

    node: UUID
    crashes: int


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
