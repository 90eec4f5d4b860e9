"""If these fail, calls go on to what is down, jobs pay for it, or nobody tries whether it is up."""

import asyncio
from collections import Counter
from contextlib import suppress
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from detent import Breaker, ConfigError, Fail, JobContext, JobFailed, Retry, Snooze, State
from detent._engine import breaker
from detent.config import BreakersConfig, Config
from detent.errors import BreakerNotFound
from detent.events import (
    BreakerClosed,
    BreakerHalfOpen,
    BreakerOpened,
    HookFailed,
    JobSnoozed,
)
from detent.model.circuit import Phase
from detent.spi.notifier import BreakerHint
from detent.testing.simulation.stage import Stage
from detent.testing.virtual import in_virtual_time

SECOND = timedelta(seconds=1)
QUICK = Breaker(window=10, minimum=4, wait=10 * SECOND, trials=2)
ONCE = Retry(max_attempts=1)
PATIENT = Retry(max_attempts=50, delay=SECOND, backoff="fixed", jitter=False)


class Service:
    """Something that tasks call, and that can be down."""

    def __init__(self, stage: Stage) -> None:
        self.down = True
        self.calls = list[float]()
        self._stage = stage

    def call(self) -> None:
        self.calls.append(self._stage.now)
        if self.down:
            raise ConnectionError("no answer")


async def ended(*jobs: Any) -> None:
    """Wait for the ends of jobs, whatever they are."""
    for job in jobs:
        with suppress(JobFailed):
            await job.result(timeout=600)


def told(stage: Stage) -> list[str]:
    """Return what was told of breakers, in order."""
    kinds = (BreakerOpened, BreakerHalfOpen, BreakerClosed)
    return [type(event).__name__ for event in stage.events if isinstance(event, kinds)]


@in_virtual_time
async def test_an_open_breaker_keeps_jobs_waiting_uncharged_until_it_is_tried() -> None:
    stage = Stage()
    stripe = Service(stage)
    stage.app.breaker("stripe", QUICK)

    @stage.app.task(breaker="stripe", retry=PATIENT)
    async def charge(ctx: JobContext) -> int:
        stripe.call()
        return ctx.attempt

    async with stage.node():
        first = [await charge.enqueue() for _ in range(4)]
        await stage.until(lambda: told(stage) == ["BreakerOpened"])
        assert len(stripe.calls) == 4
        stripe.down = False
        more = [await charge.enqueue() for _ in range(6)]
        opened = stage.now
        await asyncio.sleep(9)
        assert len(stripe.calls) == 4, "nobody calls what is down"
        states = {(await stage.app.jobs.get(job.id)).state for job in more}
        assert states == {State.PENDING}
        await ended(*first, *more)
        assert [await job.result() for job in more] == [1] * 6, "nothing was charged"
        assert [await job.result() for job in first] == [2] * 4, "their own failure was"
    assert told(stage) == ["BreakerOpened", "BreakerHalfOpen", "BreakerClosed"]
    assert stripe.calls[4] - opened >= 9.9
    (event,) = stage.told(BreakerOpened)
    assert (event.breaker, event.failed, event.total) == ("stripe", 4, 4)
    assert (event.reason, event.wait) == ("ConnectionError", 10)
    info = await stage.app.breakers.get("stripe")
    assert (info.phase, info.failed) == (Phase.CLOSED, 0)


@in_virtual_time
async def test_many_jobs_that_wait_do_not_all_come_back_at_once(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Each costs a claim, and all but the trials would have to go again."""
    monkeypatch.setattr(breaker, "PACE", 50.0)
    stage = Stage()
    stripe = Service(stage)
    stage.app.breaker("stripe", QUICK, wait=2 * SECOND, max_wait=4 * SECOND)

    @stage.app.task(breaker="stripe", retry=PATIENT)
    async def charge() -> None:
        stripe.call()

    refused = Counter[int]()
    stage.app.on(JobSnoozed, lambda _event: refused.update([int(stage.now)]))
    await stage.app.breakers.open("stripe", lasting=SECOND)
    await stage.app.enqueue_many([charge.bind() for _ in range(500)])
    async with stage.node(concurrency=100):
        await asyncio.sleep(20)
        assert refused.pop(0) == 500, "each was met once, while the breaker was open"
        assert 30 < max(refused.values()) <= 65
        stripe.down = False
        closed = await stage.until(lambda: told(stage)[-1] == "BreakerClosed")
        ran = await stage.until(lambda: not stage.tables.ready and not stage.tables.running)
        assert ran - closed < 12, "they all came back in time"


@in_virtual_time
async def test_nobody_waits_for_ever_in_a_long_line(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(breaker, "PACE", 1.0)
    monkeypatch.setattr(breaker, "LINE", 20 * SECOND)
    stage = Stage()
    stage.app.breaker("stripe", QUICK)

    @stage.app.task(breaker="stripe")
    async def charge() -> None: ...

    await stage.app.breakers.open("stripe", lasting=SECOND)
    await stage.app.enqueue_many([charge.bind() for _ in range(200)])
    async with stage.node():
        await stage.until(lambda: len(stage.told(JobSnoozed)) == 200)
        waits = [event.delay for event in stage.told(JobSnoozed)]
        assert min(waits) < 1 + 2
        assert 15 < max(waits) < 1 + 20 + 2


@in_virtual_time
async def test_a_failed_trial_opens_it_again_for_twice_as_long() -> None:
    stage = Stage()
    service = Service(stage)

    @stage.app.task(breaker=QUICK, retry=PATIENT, name="work")
    async def work() -> None:
        service.call()

    async with stage.node():
        jobs = [await work.enqueue() for _ in range(8)]
        await stage.until(lambda: len(stage.told(BreakerOpened)) == 3)
        waits = [event.wait for event in stage.told(BreakerOpened)]
        assert waits == [10, 20, 40]
        assert (await stage.app.breakers.get("work")).reopened == 2
        service.down = False
        await ended(*jobs)
    assert told(stage)[-1] == "BreakerClosed"
    assert (await stage.app.breakers.get("work")).reopened == 0


@in_virtual_time
async def test_what_one_node_sees_stops_the_calls_of_another() -> None:
    stage = Stage()
    service = Service(stage)
    apps = [stage.app, stage.new_app()]
    for number, app in enumerate(apps):
        app.breaker("service", QUICK)

        @app.task(breaker="service", retry=PATIENT, name="work", queue=f"q{number}")
        async def work() -> None:
            service.call()

    tasks = [app.tasks.get("work") for app in apps]
    async with (
        apps[0].node(queues={"q0": 10}, name="a"),
        apps[1].node(queues={"q1": 10}, name="b"),
    ):
        here = [await tasks[0].enqueue() for _ in range(2)]
        there = [await tasks[1].enqueue() for _ in range(2)]
        await stage.until(lambda: bool(stage.told(BreakerOpened)))
        assert len(service.calls) == 4, "two failures here and two there are four"
        await tasks[1].enqueue()
        await asyncio.sleep(5)
        assert len(service.calls) == 4
        service.down = False
        await ended(*here, *there)
    assert len(stage.told(BreakerOpened)) == 1, "one of them says so"
    assert len(stage.told(BreakerHalfOpen)) == 1
    assert len(stage.told(BreakerClosed)) == 1


@in_virtual_time
async def test_exactly_so_many_trials_run_at_once_in_the_whole_cluster() -> None:
    stage = Stage()
    apps = [stage.app, stage.new_app(), stage.new_app()]
    service = Service(stage)
    running, most = 0, 0
    gate = asyncio.Event()
    for app in apps:
        app.breaker("service", QUICK)

        @app.task(breaker="service", retry=PATIENT, name="work")
        async def work() -> None:
            nonlocal running, most
            service.call()
            running += 1
            most = max(most, running)
            try:
                await gate.wait()
            finally:
                running -= 1

    task = apps[0].tasks.get("work")
    async with apps[0].node(name="a"), apps[1].node(name="b"), apps[2].node(name="c"):
        jobs = [await task.enqueue() for _ in range(40)]
        await stage.until(lambda: bool(stage.told(BreakerOpened)))
        calls = len(service.calls)
        service.down = False
        await stage.until(lambda: running == 2)
        # Much longer than a permit lasts: those who run renew theirs.
        await asyncio.sleep(60)
        assert (running, len(service.calls) - calls) == (2, 2)
        assert (await stage.app.breakers.get("service")).trials_running == 2
        gate.set()
        await ended(*jobs)
    assert most >= 2
    assert told(stage) == ["BreakerOpened", "BreakerHalfOpen", "BreakerClosed"]


@in_virtual_time
async def test_a_trial_that_says_nothing_gives_its_permit_back() -> None:
    stage = Stage()
    said = list[str]()
    stage.app.breaker("service", window=4, minimum=1, wait=5 * SECOND, trials=1)

    @stage.app.task(breaker="service", retry=ONCE)
    async def work(what: str) -> None:
        said.append(what)
        if what == "down":
            raise ConnectionError
        if what == "later" and said.count("later") == 1:
            raise Snooze(SECOND)
        if what == "wrong":
            raise Fail("the invoice is empty")

    async with stage.node():
        await ended(await work.enqueue("down"))
        await stage.until(lambda: bool(stage.told(BreakerOpened)))
        later, wrong = await work.enqueue("later"), await work.enqueue("wrong")
        await ended(later, wrong)
        await ended(await work.enqueue("fine"))
    assert told(stage) == ["BreakerOpened", "BreakerHalfOpen", "BreakerClosed"]
    assert sorted(said) == ["down", "fine", "later", "later", "wrong"]


@in_virtual_time
async def test_time_outs_count_and_a_call_that_began_before_says_nothing_later() -> None:
    stage = Stage()
    stage.app.breaker("service", window=4, minimum=2, wait=5 * SECOND, trials=1)

    @stage.app.task(breaker="service", retry=ONCE, timeout=2)
    async def slow() -> None:
        await asyncio.sleep(10)

    @stage.app.task(breaker="service", retry=ONCE)
    async def long(seconds: float) -> None:
        await asyncio.sleep(seconds)
        raise ConnectionError

    @stage.app.task(breaker="service")
    async def fine() -> None:
        pass

    async with stage.node():
        old = await long.enqueue(30.0)
        await asyncio.sleep(1)
        await ended(await slow.enqueue(), await slow.enqueue())
        await stage.until(lambda: bool(stage.told(BreakerOpened)))
        await ended(await fine.enqueue())
        await stage.until(lambda: bool(stage.told(BreakerClosed)))
        await ended(old)
        await asyncio.sleep(2)
        assert (await stage.app.breakers.get("service")).total == 0
    assert stage.told(BreakerOpened)[0].reason == "JobTimeout"


@in_virtual_time
async def test_a_node_that_dies_in_a_trial_does_not_keep_the_permit() -> None:
    stage = Stage()
    other = stage.new_app()
    calls = list[str]()
    stuck = asyncio.Event()
    for name, app in (("a", stage.app), ("b", other)):
        app.breaker("service", window=4, minimum=1, wait=5 * SECOND, trials=1)

        @app.task(breaker="service", retry=ONCE, name="work", queue=name)
        async def work(what: str, name: str = name) -> None:
            calls.append(f"{name} {what}")
            if what == "fail":
                raise ConnectionError
            if what == "hang":
                await stuck.wait()

    first, second = stage.app.tasks.get("work"), other.tasks.get("work")
    async with (
        other.node(queues={"b": 10}, name="b"),
        stage.node(queues={"a": 10}, name="a") as dying,
    ):
        await ended(await first.enqueue("fail"))
        await stage.until(lambda: bool(stage.told(BreakerOpened)))
        await first.enqueue("hang")
        await stage.until(lambda: calls[-1] == "a hang")
        assert dying._crew.breakers is not None
        # As if its process were gone: nobody renews the permit any more.
        dying._crew.breakers.stop()
        begun = stage.now
        await ended(await second.enqueue("fine"))
        assert 10 <= stage.now - begun <= 25, "the time that a permit lasts, and some"
        stuck.set()
    assert calls == ["a fail", "a hang", "b fine"]
    assert told(stage)[-1] == "BreakerClosed"


@in_virtual_time
async def test_the_state_survives_restarts() -> None:
    stage = Stage()
    service = Service(stage)
    stage.app.breaker("service", QUICK)

    @stage.app.task(breaker="service", retry=ONCE)
    async def work() -> None:
        service.call()

    async with stage.node():
        await ended(*[await work.enqueue() for _ in range(4)])
        await stage.until(lambda: bool(stage.told(BreakerOpened)))
    async with stage.node():
        await work.enqueue()
        await asyncio.sleep(8)
        assert len(service.calls) == 4, "still open"


@in_virtual_time
async def test_what_was_counted_is_told_before_a_node_is_gone() -> None:
    stage = Stage()
    service = Service(stage)
    stage.app.breaker("service", QUICK)

    @stage.app.task(breaker="service", retry=ONCE)
    async def work() -> None:
        service.call()

    async with stage.node():
        await ended(await work.enqueue())
    info = await stage.app.breakers.get("service")
    assert (info.failed, info.total) == (1, 1)


@in_virtual_time
async def test_people_open_and_reset_breakers() -> None:
    stage = Stage()
    service = Service(stage)
    service.down = False
    stage.app.breaker("service", QUICK)

    @stage.app.task(breaker="service")
    async def work() -> None:
        service.call()

    breakers = stage.app.breakers
    assert [info.name for info in await breakers.list()] == ["service"], "declared is enough"
    async with stage.node():
        opened = await breakers.open("service", reason="they move house")
        assert (opened.phase, opened.half_open_at, opened.forced) == (Phase.OPEN, None, True)
        job = await work.enqueue()
        await asyncio.sleep(100)
        assert service.calls == []
        closed = await breakers.reset("service")
        assert (closed.phase, closed.reason) == (Phase.CLOSED, None)
        await ended(job)
        assert len(service.calls) == 1
        await breakers.open("service", lasting=20 * SECOND)
        begun = stage.now
        await ended(await work.enqueue())
        assert stage.now - begun == pytest.approx(21, abs=1.5)
        with pytest.raises(BreakerNotFound, match="did you mean 'service'"):
            await breakers.open("servise")
        with pytest.raises(ConfigError, match="lasting"):
            await breakers.open("service", lasting=timedelta(0))
    assert [event.node for event in stage.told(BreakerOpened)] == [None, None]


@in_virtual_time
async def test_a_node_with_breakers_asks_nothing_while_nothing_runs_under_them() -> None:
    stage = Stage()
    stage.app.breaker("service", QUICK)

    @stage.app.task(breaker="service")
    async def work() -> None:
        await asyncio.sleep(5)

    @stage.app.task
    async def other() -> None:
        pass

    async with stage.node():
        await asyncio.sleep(5)
        quiet = stage.line.count("load_breakers")
        assert quiet <= 1, "to show them to people"
        await ended(*[await other.enqueue() for _ in range(20)])
        await asyncio.sleep(600)
        assert stage.line.count("load_breakers") == quiet
        await ended(await work.enqueue())
        await asyncio.sleep(60)
        assert stage.line.count("load_breakers") - quiet <= 9, "now and then while it runs"
        assert stage.line.count("save_breakers") <= 2


@in_virtual_time
async def test_many_ends_are_reported_together() -> None:
    stage = Stage()
    stage.app.breaker("service", window=1_000, minimum=1_000)

    @stage.app.task(breaker="service")
    async def work() -> None:
        await asyncio.sleep(0.01)

    async with stage.node():
        begun = stage.now
        await ended(*[await work.enqueue() for _ in range(500)])
        lasted = stage.now - begun
        await asyncio.sleep(2)
        assert (await stage.app.breakers.get("service")).total == 500
        assert stage.line.count("save_breakers") <= 3 + lasted / 0.5


@in_virtual_time
async def test_a_store_that_does_not_answer_does_not_fail_a_job() -> None:
    stage = Stage()
    stage.app.breaker("service", QUICK)

    @stage.app.task(breaker="service", retry=ONCE)
    async def work(ctx: JobContext) -> int:
        return ctx.attempt

    async with stage.node():
        stage.line.lose("load_breakers", times=20)
        stage.line.lose("save_breakers", times=3, reply=True)
        jobs = [await work.enqueue() for _ in range(5)]
        assert [await job.result(timeout=60) for job in jobs] == [1] * 5


@in_virtual_time
async def test_no_trial_begins_before_its_time_when_the_store_is_slow() -> None:
    """Found by seed 6144 in a storm: what was long on its way was taken for older than it was."""
    stage, tried = Stage(), list[float]()
    stage.app.breaker("stripe", QUICK)
    stage.app.on(BreakerHalfOpen, lambda _event: tried.append(stage.now))

    @stage.app.task(breaker="stripe")
    async def charge() -> None: ...

    async with stage.node():
        await asyncio.sleep(1)
        opened = stage.now
        await stage.app.breakers.open("stripe", lasting=10 * SECOND)
        await asyncio.sleep(5)
        first, second = stage.line.hold("load_breakers"), stage.line.hold("load_breakers")
        job = await charge.enqueue()
        await asyncio.sleep(4)
        first.set()
        await asyncio.sleep(0.8)
        second.set()
        await job.result(timeout=60)
    assert tried
    assert tried[0] - opened >= 10


@in_virtual_time
async def test_a_lost_reply_to_a_trial_does_not_stop_all_trials() -> None:
    stage = Stage()
    service = Service(stage)
    stage.app.breaker("service", window=4, minimum=1, wait=5 * SECOND, trials=1)

    @stage.app.task(breaker="service", retry=PATIENT)
    async def work() -> None:
        service.call()

    async with stage.node():
        job = await work.enqueue()
        await stage.until(lambda: bool(stage.told(BreakerOpened)))
        service.down = False
        stage.line.lose("save_breakers", reply=True)
        begun = stage.now
        await ended(job)
        assert stage.now - begun < 30
    assert (await stage.app.breakers.get("service")).phase is Phase.CLOSED


@in_virtual_time
async def test_a_breaker_whose_opening_was_not_confirmed_is_told_all_the_same() -> None:
    stage = Stage()
    stage.app.breaker("service", window=4, minimum=1, wait=5 * SECOND, trials=1)

    @stage.app.task(breaker="service", retry=ONCE)
    async def work(number: int) -> None:
        raise ConnectionError

    async with stage.node():
        await asyncio.sleep(1)
        stage.line.lose("save_breakers", reply=True)
        await ended(await work.enqueue(1))
        await work.enqueue(2)
        await asyncio.sleep(3)
    assert told(stage) == ["BreakerOpened"]


@in_virtual_time
async def test_a_hint_that_comes_while_a_call_runs_does_not_fail_the_node() -> None:
    stage = Stage()
    stage.app.breaker("stripe", QUICK)
    began, goes_on = asyncio.Event(), asyncio.Event()

    @stage.app.task(breaker="stripe", retry=ONCE)
    async def charge() -> None:
        began.set()
        await goes_on.wait()
        raise ConnectionError("no answer")

    async with stage.node():
        job = await charge.enqueue()
        await began.wait()
        assert stage.notifier is not None
        stage.notifier.publish([BreakerHint("stripe")])
        await asyncio.sleep(0.01)  # it is heard
        goes_on.set()
        with pytest.raises(JobFailed, match="no answer"):
            await job.result(timeout=60)
        await asyncio.sleep(1)
        assert (await stage.app.breakers.get("stripe")).failed == 1
    assert stage.told(HookFailed) == []


@in_virtual_time
async def test_breakers_can_be_switched_off() -> None:
    stage = Stage(replace(Config(), breakers=BreakersConfig(enabled=False)))
    service = Service(stage)
    stage.app.breaker("service", QUICK)

    @stage.app.task(breaker="service", retry=ONCE)
    async def work() -> None:
        service.call()

    async with stage.node():
        await ended(*[await work.enqueue() for _ in range(20)])
    assert len(service.calls) == 20
    assert stage.line.count("load_breakers") == 0
    assert stage.told(JobSnoozed) == []


def test_declarations_that_cannot_be_right_are_refused() -> None:
    app = Stage().app
    with pytest.raises(ConfigError, match=r"breaker 'a': Breaker\(failure_rate=2\)"):
        app.breaker("a", failure_rate=2)
    with pytest.raises(ConfigError, match=r"breaker 'a'.*window=5.*minimum"):
        app.breaker("a", window=5, minimum=6)
    with pytest.raises(ConfigError, match="breaker ''"):
        app.breaker("")
    with pytest.raises(ConfigError, match=r"must be a Breaker"):
        app.breaker("a", "fast")  # type: ignore[arg-type]
    app.breaker("a", Breaker.fast())
    app.breaker("a", Breaker.fast())
    with pytest.raises(ConfigError, match="two breakers are named 'a'"):
        app.breaker("a", Breaker.critical())
    with pytest.raises(ConfigError, match=r"breaker=3"):
        app.task(breaker=3)(print)  # type: ignore[call-overload]


@pytest.mark.parametrize("name", ["", None, 5, "a\x00b", "x" * 300, "\ud800"])
@in_virtual_time
async def test_a_name_that_no_breaker_can_have_is_refused(name: Any) -> None:
    breakers = Stage().app.breakers
    for call in (breakers.get(name), breakers.open(name), breakers.reset(name)):
        with pytest.raises(ConfigError, match=r"breaker .*: must be 1 to 255 printable"):
            await call


@pytest.mark.parametrize(
    "given",
    [{"lasting": "soon"}, {"lasting": -SECOND}, {"lasting": 2 * 86_400 * SECOND}, {"reason": 5}],
)
@in_virtual_time
async def test_a_breaker_is_not_opened_by_halves(given: dict[str, Any]) -> None:
    stage = Stage()
    stage.app.breaker("stripe")
    (field,) = given
    with pytest.raises(ConfigError, match=f"{field} = .*: must be"):
        await stage.app.breakers.open("stripe", **given)
    assert (await stage.app.breakers.get("stripe")).phase is Phase.CLOSED
    assert not stage.told(BreakerOpened)


@in_virtual_time
async def test_a_task_whose_breaker_nobody_declared_keeps_a_node_from_starting() -> None:
    app = Stage().app
    app.breaker("stripe")

    @app.task(breaker="strype", name="charge")
    async def charge() -> None: ...

    with pytest.raises(ConfigError, match=r"'charge'.*'strype' is not declared.*'stripe'"):
        app.node_parts(app.config)
