"""Which new jobs the nodes are told of: without it every enqueue would have to wake them."""

from collections.abc import Callable, Mapping
from typing import Final

from detent.model.job import NewJob, Priority

Trigger = Callable[[NewJob], bool]


def every_job(_job: NewJob) -> bool:
    """Wake for every job: also for one that is due later, so that it starts when it is due."""
    return True


def classic(job: NewJob) -> bool:
    """Wake as Ratchet does: for what is critical, and for what was asked for without a delay.

    Everything else waits for the next poll.
    """
    return job.priority >= Priority.CRITICAL or (job.due_at is None and not job.delay)


TRIGGERS: Final[Mapping[str, Trigger]] = {"due": every_job, "classic": classic}
