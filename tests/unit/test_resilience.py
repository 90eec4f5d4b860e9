"""If these fail, an application cannot decide for itself which calls may be made."""

from datetime import timedelta
from typing import Any

import pytest

from detent import ConfigError, JobContext, JobFailed, Retry
from detent.events import JobRetrying
from detent.model.outcome import Outcome
from detent.spi.resilience import ProtectedCall, Resilience
from detent.testing.simulation.stage import Stage
from detent.testing.virtual import in_virtual_time

SECOND = timedelta(seconds=1)


class OneAtATime(Resilience):
    """Lets one call of each task be made at a time."""

    made = 0

    def __init__(self) -> None:
        type(self).made += 1
        self.busy = set[str]()
        self.heard = list[tuple[str, str | None, str]]()

    async def before(self, call: ProtectedCall) -> timedelta | None:
        if call.task in self.busy:
            return SECOND
        self.busy.add(call.task)
        return None

    def after(self, call: ProtectedCall, outcome: Outcome) -> None:
        self.busy.discard(call.task)
        self.heard.append((call.task, call.breaker, str(outcome.ending)))


@in_virtual_time
async def test_a_strategy_of_ones_own_stands_around_every_call() -> None:
    stage, running, most = Stage(), 0, 0
    strategy = OneAtATime()
    stage.app.resilience(strategy)
    stage.app.breaker("service", minimum=1)

    @stage.app.task(name="work", breaker="service")
    async def work(ctx: JobContext) -> int:
        nonlocal running, most
        running += 1
        most = max(most, running)
        await stage.runtime.sleep(0.5)
        running -= 1
        return ctx.attempt

    @stage.app.task(name="wrong", retry=Retry(max_attempts=1))
    async def wrong() -> None:
        raise OSError

    async with stage.node():
        jobs = [await work.enqueue() for _ in range(5)]
        assert [await job.result(timeout=120) for job in jobs] == [1] * 5, "nothing is charged"
        with pytest.raises(JobFailed):
            await (await wrong.enqueue()).result(timeout=60)
    assert most == 1
    assert strategy.heard == [
        *[("work", "service", "succeeded")] * 5,
        ("wrong", None, "failed"),
    ]
    assert stage.line.count("load_breakers") == 0, "the breakers are out of it"


@in_virtual_time
async def test_a_class_makes_one_for_each_node() -> None:
    stage = Stage()
    OneAtATime.made = 0
    stage.app.resilience(OneAtATime)

    @stage.app.task
    async def work() -> int:
        return 1

    async with stage.node(name="a"), stage.node(name="b"):
        assert await (await work.enqueue()).result(timeout=60) == 1
    assert OneAtATime.made == 2


@in_virtual_time
async def test_none_lets_all_calls_pass() -> None:
    stage, calls = Stage(), 0
    stage.app.resilience(None)

    @stage.app.task(breaker=True, retry=Retry(max_attempts=20, delay=SECOND, jitter=False))
    async def work() -> None:
        nonlocal calls
        calls += 1
        if calls < 15:
            raise OSError

    async with stage.node():
        await (await work.enqueue()).result(timeout=36_000)
    assert calls == 15
    assert stage.line.count("load_breakers") == 0


def test_what_is_no_strategy_is_refused() -> None:
    with pytest.raises(ConfigError, match=r"app.resilience\('retry'\): has no before"):
        Stage().app.resilience("retry")  # type: ignore[arg-type]


@in_virtual_time
async def test_a_strategy_that_would_never_learn_is_refused() -> None:
    class Forgetful:
        async def before(self, _call: ProtectedCall) -> timedelta | None: ...

        async def after(self, _call: ProtectedCall, _outcome: Outcome) -> None: ...

    app = Stage().app
    with pytest.raises(ConfigError, match=r"after\(\) as in detent.spi.resilience, and makes no"):
        app.resilience(Forgetful())  # type: ignore[arg-type]
    app.resilience(Forgetful)  # type: ignore[arg-type]
    with pytest.raises(ConfigError, match=r"made .*Forgetful.*, without before\(\) and after"):
        app.node_parts(app.config)


@in_virtual_time
async def test_what_makes_no_strategy_keeps_a_node_from_starting() -> None:
    app = Stage().app
    app.resilience(dict)  # type: ignore[arg-type]
    with pytest.raises(ConfigError, match=r"made \{\}, without before\(\) and after\(\)"):
        app.node_parts(app.config)


@pytest.mark.parametrize("answer", [5, True, "later", object()])
@in_virtual_time
async def test_a_strategy_that_answers_nonsense_fails_the_attempt_and_loses_no_job(
    answer: object,
) -> None:
    stage = Stage()

    class Confused:
        async def before(self, call: ProtectedCall) -> Any:
            return answer if call.attempt == 1 else None

        def after(self, call: ProtectedCall, outcome: Outcome) -> None: ...

    stage.app.resilience(Confused)

    @stage.app.task(name="work", retry=Retry(max_attempts=2, delay=timedelta(seconds=1)))
    async def work() -> str:
        return "done"

    async with stage.node():
        job = await work.enqueue()
        assert await job.result(timeout=60) == "done"
    (retried,) = stage.told(JobRetrying)
    assert "Confused.before() returned" in retried.error
