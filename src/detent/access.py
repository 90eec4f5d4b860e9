"""Asks the application's own rule whether somebody may do something: `@app.authorize`."""

import inspect
from collections.abc import Awaitable, Callable
from typing import Any

from detent.errors import NotAllowed
from detent.model.access import Action, Target
from detent.model.job import JobFilter, JobInfo, NewJob
from detent.model.outcome import Ending, Outcome
from detent.principal import current_principal
from detent.spi.guard import GuardedAttempt, GuardedTask

Rule = Callable[[str | None, Action, Target], bool | Awaitable[bool]]
"""`def may(principal, action, target) -> bool`, async or not; what it raises goes to the caller."""


class Access:
    """One rule, and the ways to ask it."""

    def __init__(self, rule: Rule) -> None:
        self._rule = rule

    async def allows(self, principal: str | None, action: Action, target: Target) -> bool:
        """Whether the rule lets somebody do this; forgetting to answer is a no."""
        answer: Any = self._rule(principal, action, target)
        if inspect.isawaitable(answer):
            answer = await answer
        return bool(answer)

    async def check(self, action: Action, target: Target) -> None:
        """Raise `NotAllowed` unless the rule lets the one do this in whose name we act."""
        principal = current_principal()
        if not await self.allows(principal, action, target):
            raise NotAllowed(principal, action, target)

    async def check_new(self, job: NewJob) -> None:
        """Raise `NotAllowed` unless a job may be enqueued in the name that it carries."""
        target = Target(job.task, job.queue, tags=tuple(job.tags or ()), owner=job.principal)
        # Who acts in his own name may give a job another's: the rule sees both.
        principal = current_principal() or job.principal
        if not await self.allows(principal, Action.CREATE, target):
            raise NotAllowed(principal, Action.CREATE, target)

    async def check_all(self, action: Action, where: JobFilter) -> None:
        """Raise `NotAllowed` unless all jobs may be changed like this that a filter means."""
        await self.check(action, Target(where.task, where.queue, where=where))

    async def readable(self, jobs: list[JobInfo]) -> list[JobInfo]:
        """Return those of some jobs that may be read."""
        principal = current_principal()
        return [job for job in jobs if await self.allows(principal, Action.READ, target_of(job))]


class AccessGuard:
    """Fails attempts, without a retry, that their principal may not have run."""

    def __init__(self, access: Access) -> None:
        self._access = access

    async def admit(self, attempt: GuardedAttempt, task: GuardedTask, /) -> Outcome | None:
        """See `Guard.admit`."""
        principal = attempt.principal
        target = Target(
            task.name, attempt.queue, attempt.job_id, tuple(attempt.tags()), owner=principal
        )
        if await self._access.allows(principal, Action.EXECUTE, target):
            return None
        refused = NotAllowed(principal, Action.EXECUTE, target)
        return Outcome(Ending.FAILED, refused, retryable=False)

    def ended(self, attempt: GuardedAttempt, outcome: Outcome, /) -> None:
        """See `Guard.ended`; nothing follows from it."""


def target_of(job: JobInfo) -> Target:
    """Return a known job as a target."""
    return Target(job.task, job.queue, job.id, job.tags, job.principal)
