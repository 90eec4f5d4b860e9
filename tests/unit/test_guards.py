"""If these fail, a guard does not keep an attempt from running, or never hears how it ended."""

from datetime import timedelta
from functools import partial

import pytest

from detent import JobContext, JobFailed, Retry
from detent.events import HookFailed, JobSnoozed, JobStarted
from detent.model.outcome import Ending, Outcome
from detent.spi.guard import Guard, GuardedAttempt, GuardedTask
from detent.testing.simulation.stage import Stage
from detent.testing.virtual import in_virtual_time

MINUTE = timedelta(minutes=1)


class Doorman(Guard):
    """Refuses with the outcomes it was given, one after the other, then lets pass."""

    def __init__(self, *refusals: Outcome) -> None:
        self.refusals = list(refusals)
        self.asked = list[str]()
        self.heard = list[str]()

    async def admit(self, attempt: GuardedAttempt, task: GuardedTask) -> Outcome | None:
        assert attempt.claim.task == task.name
        self.asked.append(task.name)
        return self.refusals.pop(0) if self.refusals else None

    def ended(self, attempt: GuardedAttempt, outcome: Outcome) -> None:
        self.heard.append(str(outcome.ending))


def _the_same(guard: Guard, _config: object) -> Guard:
    return guard


def guard(stage: Stage, *guards: Guard) -> None:
    """Put guards around all attempts of the stage's nodes."""
    for each in guards:
        stage.app._guard_makers.append(partial(_the_same, each))


@in_virtual_time
async def test_a_refused_attempt_does_not_run_and_comes_back_uncharged() -> None:
    stage, starts = Stage(), list[float]()
    first = Doorman()
    second = Doorman(Outcome(Ending.SNOOZED, wait=MINUTE))
    guard(stage, first, second)

    @stage.app.task(name="work")
    async def work(ctx: JobContext) -> int:
        starts.append(stage.now)
        return ctx.attempt

    async with stage.node():
        begun = stage.now
        job = await work.enqueue()
        assert await job.result(timeout=120) == 1, "nothing was charged"
    (start,) = starts
    assert start - begun == pytest.approx(60, abs=1)
    assert [event.delay for event in stage.told(JobSnoozed)] == [60]
    assert len(stage.told(JobStarted)) == 1
    assert first.asked == second.asked == ["work", "work"]
    assert first.heard == ["snoozed", "succeeded"], "it hears of what another refused"
    assert second.heard == ["succeeded"]


@in_virtual_time
async def test_a_guard_may_end_a_job_for_good() -> None:
    stage, last = Stage(), Doorman()
    guard(
        stage, Doorman(Outcome(Ending.FAILED, PermissionError("not here"), retryable=False)), last
    )

    @stage.app.task(retry=Retry(max_attempts=5))
    async def work() -> None:
        raise AssertionError("ran all the same")

    async with stage.node():
        job = await work.enqueue()
        with pytest.raises(JobFailed, match="not here"):
            await job.result(timeout=60)
    assert last.asked == [], "those after the one that refused are not asked"


@in_virtual_time
async def test_a_guard_that_raises_fails_the_attempt_as_the_task_would() -> None:
    stage = Stage()

    class Broken(Doorman):
        async def admit(self, attempt: GuardedAttempt, task: GuardedTask) -> Outcome | None:
            if attempt.attempt == 1:
                raise OSError("no answer")
            return None

        def ended(self, attempt: GuardedAttempt, outcome: Outcome) -> None:
            raise OSError("no ear")

    guard(stage, Broken())

    @stage.app.task(retry=Retry(max_attempts=2))
    async def work(ctx: JobContext) -> int:
        return ctx.attempt

    async with stage.node():
        job = await work.enqueue()
        assert await job.result(timeout=60) == 2
    (event,) = stage.told(HookFailed)
    assert "Broken.ended" in event.name
    assert "no ear" in event.error


@in_virtual_time
async def test_guards_hear_of_failures_and_of_jobs_that_were_canceled() -> None:
    stage, doorman = Stage(), Doorman()
    guard(stage, doorman)

    @stage.app.task(retry=Retry(max_attempts=1))
    async def work() -> None:
        raise ValueError("no")

    async with stage.node():
        job = await work.enqueue()
        with pytest.raises(JobFailed):
            await job.result(timeout=60)
    assert doorman.heard == ["failed"]
