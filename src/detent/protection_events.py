"""What can be told about jobs that a node may not run, or cannot read."""

from dataclasses import dataclass
from uuid import UUID

__all__ = ["SealTrouble", "TaskDenied"]


@dataclass(frozen=True, slots=True)
class TaskDenied:
    """The policy of this node forbids a task; its jobs go back for other nodes. Told once."""

    job_id: UUID
    """The first such job."""
    task: str
    node: UUID
    rule: str
    """The setting that forbids it."""
    delay: float


@dataclass(frozen=True, slots=True)
class SealTrouble:
    """This node cannot open what a job holds, or seal what it will come to; it comes back."""

    job_id: UUID
    task: str
    node: UUID
    error: str
    delay: float
