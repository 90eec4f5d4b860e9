"""What stands around an attempt and may keep it from running: policy, breakers, your own."""

from typing import Any, Protocol

from detent.model.job import Claim
from detent.model.outcome import Outcome
from detent.spi.attempt import AttemptPort


class GuardedTask(Protocol):
    """The task of an attempt as guards see it."""

    @property
    def name(self) -> str:
        """Its registered name."""

    @property
    def options_declared(self) -> Any:
        """The options of its declaration (`detent.tasks.TaskOptions`)."""


class GuardedAttempt(AttemptPort, Protocol):
    """An attempt as guards see it; its arguments are not decoded yet."""

    claim: Claim

    @property
    def job_task(self) -> GuardedTask | None:
        """Its task."""


class Guard(Protocol):
    """Asked before every attempt, told after it. One instance serves one node.

    Guards are asked in order, on the event loop; the first that refuses ends the attempt, and
    those after it are not asked. Whoever let an attempt pass is told how it ended, in any case.
    """

    async def admit(self, attempt: GuardedAttempt, task: GuardedTask, /) -> Outcome | None:
        """Return None to let the attempt run, or the outcome that it has without running.

        `SNOOZED` with a wait and `RELEASED` charge nothing; `FAILED` charges the attempt, and
        with `retryable=False` it is the job's last. To raise is to fail as the task would.
        """

    def ended(self, attempt: GuardedAttempt, outcome: Outcome, /) -> None:
        """Be told how an attempt ended that this guard let pass; it must not block.

        It may not have run after all: another guard refused it, or it was stopped before.
        """
