"""What can be told about leaders, daemons and locks; `detent.events` has all of it."""

from dataclasses import dataclass
from uuid import UUID

__all__ = [
    "DaemonEnded",
    "DaemonSaid",
    "DaemonStarted",
    "DaemonStopped",
    "DaemonStuck",
    "HistoryLost",
    "LeaderElected",
    "LeaderLost",
    "LeaderResigned",
    "LockWasLost",
]


@dataclass(frozen=True, slots=True)
class LeaderElected:
    """This node leads a role from now on."""

    node: UUID
    role: str
    term: int


@dataclass(frozen=True, slots=True)
class LeaderLost:
    """This node no longer leads a role, and did not give it up."""

    node: UUID
    role: str
    term: int
    reason: str


@dataclass(frozen=True, slots=True)
class LeaderResigned:
    """This node has given up a role."""

    node: UUID
    role: str
    term: int


@dataclass(frozen=True, slots=True)
class DaemonStarted:
    """A daemon begins to run on this node."""

    node: UUID
    daemon: str
    term: int


@dataclass(frozen=True, slots=True)
class DaemonEnded:
    """A daemon returned or raised, and will be started again."""

    node: UUID
    daemon: str
    term: int
    error: str | None
    """What it raised; None if it simply returned."""
    delay: float


@dataclass(frozen=True, slots=True)
class DaemonStopped:
    """A daemon has come to its end on this node, as it was told to."""

    node: UUID
    daemon: str
    term: int
    reason: str


@dataclass(frozen=True, slots=True)
class DaemonStuck:
    """A daemon was told to stop and goes on; it is not started here again before it has ended."""

    node: UUID
    daemon: str
    term: int


@dataclass(frozen=True, slots=True)
class DaemonSaid:
    """A daemon wrote a line to its log."""

    node: UUID
    daemon: str
    term: int
    severity: str
    """"debug", "info", "warning" or "error": the level of the line."""
    message: str


@dataclass(frozen=True, slots=True)
class LockWasLost:
    """A lock that this process held ran out or was taken away."""

    name: str
    fence: int
    reason: str


@dataclass(frozen=True, slots=True)
class HistoryLost:
    """The store has forgotten what it had acknowledged: it was set back, or a standby lacked it."""

    node: UUID | None
    """None when a program noticed it that is no node."""
    evidence: str
