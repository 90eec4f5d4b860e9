"""Asks the guards of a node before an attempt runs, and tells them how it ended."""

from collections.abc import Awaitable, Callable
from datetime import timedelta
from typing import Final

from detent._engine.attempt import Attempt
from detent.events import HookFailed
from detent.model.failure import describe
from detent.model.outcome import Ending, Outcome
from detent.spi.guard import Guard, GuardedAttempt, GuardedTask
from detent.spi.resilience import ProtectedCall, Resilience

_COMMITTED: Final = Outcome(Ending.SUCCEEDED)


async def run_guarded(attempt: Attempt, run: Callable[[Attempt], Awaitable[Outcome]]) -> Outcome:
    """Run an attempt if every guard lets it pass; else return the first refusal."""
    bench = attempt.bench
    task = bench.registry.find(attempt.claim.task)
    if task is None:
        # It will be parked for a node that knows it; nobody can say more about it here.
        return await run(attempt)
    attempt.job_task = task
    for guard in bench.guards:
        refusal = await guard.admit(attempt, task)
        if isinstance(refusal, Outcome):
            return refusal
        if refusal is not None:
            name = type(guard).__name__
            raise TypeError(f"{name}.admit() returned {refusal!r}: must be an Outcome or None")
        attempt.admitted_by = (*attempt.admitted_by, guard)
    return await run(attempt)


class ResilienceGuard(Guard):
    """Puts a strategy around every call."""

    def __init__(self, strategy: Resilience) -> None:
        self._strategy = strategy

    async def admit(self, attempt: GuardedAttempt, task: GuardedTask) -> Outcome | None:
        """Ask the strategy; a job that has to wait goes back uncharged."""
        breaker = task.options_declared.breaker
        wait = await self._strategy.before(_call_of(attempt, breaker))
        if wait is None:
            return None
        if not isinstance(wait, timedelta):
            # Like anything that it raises, it fails the attempt: the job must not be lost.
            name = type(self._strategy).__name__
            raise TypeError(f"{name}.before() returned {wait!r}: must be a timedelta or None")
        what = "no call is let pass now" if breaker is None else f"breaker {breaker} is not closed"
        return Outcome(Ending.SNOOZED, wait=wait, reason=what)

    def ended(self, attempt: GuardedAttempt, outcome: Outcome) -> None:
        """Tell the strategy."""
        task = attempt.job_task
        breaker = None if task is None else task.options_declared.breaker
        self._strategy.after(_call_of(attempt, breaker), outcome)


def _call_of(attempt: GuardedAttempt, breaker: str | None) -> ProtectedCall:
    claim = attempt.claim
    return ProtectedCall(claim.id, claim.fence, claim.task, attempt.queue, claim.attempt, breaker)


def tell_guards(attempt: Attempt, outcome: Outcome) -> None:
    """Tell those that let the attempt pass how it ended, the last one first."""
    if attempt.completed:
        # Whatever it raised afterwards: its success is committed.
        outcome = _COMMITTED
    for guard in reversed(attempt.admitted_by):
        try:
            guard.ended(attempt, outcome)
        except Exception as error:  # noqa: BLE001  somebody's own must not lose the job
            attempt.bench.bus.emit(HookFailed(f"{type(guard).__name__}.ended", describe(error)))
