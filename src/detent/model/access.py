"""Who does what to which jobs: what an application's own rule is asked about."""

from dataclasses import dataclass
from enum import StrEnum
from uuid import UUID

from detent.model.job import JobFilter


class Action(StrEnum):
    """What somebody wants to do; what `detent` itself does for no one in particular is none."""

    CREATE = "create"
    EXECUTE = "execute"
    """Run an attempt: asked on the node, of the one in whose name the job was enqueued."""
    CANCEL = "cancel"
    PAUSE = "pause"
    RESUME = "resume"
    RETRY = "retry"
    RESCHEDULE = "reschedule"
    DELETE = "delete"
    READ = "read"
    CONFIGURE = "configure"
    """Change how the cluster works: switch a breaker, set a limit, drain a node, break a lock."""


@dataclass(frozen=True, slots=True)
class Target:
    """What it is to be done to: a job, all jobs that a filter means, a queue, or another thing."""

    task: str | None = None
    queue: str | None = None
    id: UUID | None = None
    """Of a job, or of a node; None for a job still to be enqueued, and where many are meant."""
    tags: tuple[str, ...] = ()
    owner: str | None = None
    """In whose name the job was enqueued."""
    where: JobFilter | None = None
    """What narrows down the jobs of a bulk operation; None everywhere else."""
    kind: str | None = None
    """What it is when it is neither job nor queue: `breaker`, `limit`, `node`, `schedule`..."""
    name: str | None = None
    """The name of such a thing, or of the schedule that is to make a job now."""

    def __str__(self) -> str:
        if self.kind is not None:
            return f"the {self.kind} {self.name}"
        if self.where is not None:
            return "all jobs that match"
        if self.task is None:
            return f"the queue {self.queue}"
        return f"a job of {self.task}" if self.id is None else f"job {self.id} ({self.task})"
