"""If these fail, somebody outside is not told of a job's end, or waits for it for no reason."""

import asyncio
import json
import math
import random
import threading
from collections.abc import Iterator
from datetime import timedelta
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from detent import App, ConfigError, Fail, JobContext
from detent.config import Config, EventsConfig
from detent.errors import DeliveryFailed
from detent.events import (
    EventUndeliverable,
    JobDied,
    JobStarted,
    JobSucceeded,
    JobWasCanceled,
    SinkRecovered,
    SinkTrouble,
)
from detent.model.delivery import LONGEST, next_delay
from detent.model.job import Hook
from detent.sinks import WebhookSink
from detent.spi.outbox import OutboxEvent
from detent.testing.simulation.stage import Stage
from detent.testing.virtual import in_virtual_time


class Receiver:
    """A sink that fails as often as it is told to."""

    def __init__(self, *troubles: BaseException | None) -> None:
        self.got: list[OutboxEvent] = []
        self.tried: list[float] = []
        self.troubles = list(troubles)
        self.stage: Stage | None = None

    async def deliver(self, event: OutboxEvent, alert: object) -> None:
        if self.stage is not None:
            self.tried.append(self.stage.now)
        trouble = self.troubles.pop(0) if self.troubles else None
        if trouble is not None:
            raise trouble
        self.got.append(event)


def declare(app: App) -> Any:
    @app.task(name="shop.work")
    async def work(fails: bool = False) -> str:
        if fails:
            raise Fail("no")
        return "done"

    return work


@in_virtual_time
async def test_ends_are_delivered_and_leave_the_outbox() -> None:
    stage, receiver = Stage(), Receiver()
    work = declare(stage.app)
    stage.app.sink("billing", receiver)
    async with stage.node():
        good, bad = await work.enqueue(), await work.enqueue(True)
        took = await stage.until(lambda: len(receiver.got) == 2)
        assert took < 1, "told, not polled"
        await stage.until(lambda: not stage.tables.events)
    assert sorted((event.job, event.kind) for event in receiver.got) == sorted(
        [(good.id, "succeeded"), (bad.id, "failed")]
    )
    assert json.loads(next(e.error for e in receiver.got if e.error))["message"] == "no"


@in_virtual_time
async def test_a_sink_hears_only_of_what_it_asked_for() -> None:
    stage, receiver = Stage(), Receiver()
    work = declare(stage.app)

    @stage.app.task(name="shop.other")
    async def other() -> None: ...

    stage.app.sink("billing", receiver, events=(JobDied,), tasks=("shop.w*",))
    async with stage.node():
        fine, bad, alien = await work.enqueue(), await work.enqueue(True), await other.enqueue()
        for job in (fine, alien):
            await job.result(timeout=5)
        await stage.until(lambda: receiver.got)
    assert [event.job for event in receiver.got] == [bad.id]
    assert stage.tables.job[alien.id].new.hooks == 0, "and costs the others nothing"
    assert stage.tables.job[fine.id].new.hooks == Hook.EVENT


@in_virtual_time
async def test_jobs_that_nobody_watches_never_reach_the_outbox() -> None:
    stage = Stage()
    work = declare(stage.app)
    async with stage.node():
        await (await work.enqueue()).result(timeout=5)
        await asyncio.sleep(120)
    calls = {call.statement for call in stage.line.calls}
    assert not calls & {"take_events", "events_delivered", "finish_hooked", "raise_alerts"}


@in_virtual_time
async def test_a_sink_that_is_declared_later_counts_from_then_on() -> None:
    stage, receiver = Stage(), Receiver()
    work = declare(stage.app)
    before = await work.enqueue()
    stage.app.sink("billing", receiver)
    after = await work.enqueue()
    async with stage.node():
        await stage.until(lambda: receiver.got)
        await before.result(timeout=5)
    assert [event.job for event in receiver.got] == [after.id]


@in_virtual_time
async def test_a_cancel_and_a_transaction_are_told_too() -> None:
    stage, receiver = Stage(), Receiver()
    stage.app.sink("billing", receiver, events=(JobSucceeded, JobWasCanceled))

    @stage.app.task
    async def work(ctx: JobContext) -> None:
        async with ctx.transaction():
            pass

    late = await work.options(delay=timedelta(hours=1)).enqueue()
    async with stage.node():
        job = await work.enqueue()
        await stage.until(lambda: receiver.got, 1.0)
        await stage.app.jobs.cancel(late.id, reason="no need")
        await stage.until(lambda: len(receiver.got) == 2)
    assert [(event.kind, event.job, event.reason) for event in receiver.got] == [
        ("succeeded", job.id, None),
        ("canceled", late.id, "no need"),
    ]


@in_virtual_time
async def test_a_sink_that_fails_is_tried_again_later_and_later() -> None:
    receiver = Receiver(*(OSError("no route") for _ in range(4)))
    stage = receiver.stage = Stage()
    work = declare(stage.app)
    stage.app.sink("billing", receiver)
    async with stage.node():
        await work.enqueue()
        await stage.until(lambda: receiver.got)
    pauses = [later - earlier for earlier, later in pairwise(receiver.tried)]
    for number, pause in enumerate(pauses):
        assert 0.5 * 2**number <= pause <= 2**number + 0.2, pauses
    assert [event.error for event in stage.told(SinkTrouble)] == ["OSError: no route"], "once"
    assert len(stage.told(SinkRecovered)) == 1
    assert receiver.got[0].tries == 5


@in_virtual_time
async def test_a_receiver_is_left_alone_for_as_long_as_it_asks() -> None:
    busy = DeliveryFailed("HTTP 429", retry_after=timedelta(minutes=2))
    receiver = Receiver(busy)
    stage = receiver.stage = Stage()
    work = declare(stage.app)
    stage.app.sink("billing", receiver)
    async with stage.node():
        await work.enqueue()
        await stage.until(lambda: receiver.got, 200)
    first, second = receiver.tried
    assert 120 <= second - first <= 131


@in_virtual_time
async def test_an_event_that_is_refused_is_given_up_and_can_be_retried() -> None:
    refusal = DeliveryFailed("HTTP 404: who?", refused=True)
    receiver = Receiver(refusal, refusal, refusal)
    stage = Stage()
    work = declare(stage.app)
    stage.app.sink("billing", receiver)
    async with stage.node():
        job = await work.enqueue()
        await stage.until(lambda: stage.told(EventUndeliverable))
        (told,) = stage.told(EventUndeliverable)
        assert (told.sink, told.job_id, told.tries) == ("billing", job.id, 3)
        (info,) = await stage.app.outbox.list(undeliverable=True)
        assert info.problem == "DeliveryFailed: HTTP 404: who?"
        await asyncio.sleep(3600)
        assert receiver.got == []
        assert await stage.app.outbox.retry(sink="other") == 0
        assert await stage.app.outbox.retry(info.event.id) == 1
        await stage.until(lambda: receiver.got)
        await stage.until(lambda: not stage.tables.events)
    assert await stage.app.outbox.retry() == 0


@in_virtual_time
async def test_events_of_a_sink_that_is_no_more_can_be_discarded() -> None:
    stage, receiver = Stage(), Receiver()
    work = declare(stage.app)
    stage.app.sink("billing", receiver)
    worker = stage.new_app()
    declare(worker)
    async with stage.node(worker):
        jobs = [await work.enqueue() for _ in range(3)]
        for job in jobs:
            await job.result(timeout=5)
    outbox = stage.app.outbox
    first, *_ = await outbox.list()
    assert await outbox.discard(first.event.id) == 1
    assert await outbox.discard(first.event.id) == 0
    assert await outbox.discard(sink="billing") == 2
    assert await outbox.list() == []
    wrong: Any = outbox
    with pytest.raises(ConfigError, match=r"discard\(\): name events, or sink="):
        await wrong.discard()
    for sink in ("a b", 5, "", "alert:"):
        for verb in (wrong.discard, wrong.retry, wrong.list):
            with pytest.raises(ConfigError, match=r"sink .*: must be 1 to 100"):
                await verb(sink=sink)
    for number in ("1", 0, 2**63, True):
        with pytest.raises(ConfigError, match=r"ids = .*: must be a number"):
            await wrong.retry(number)
    assert await outbox.retry(sink="alert:log") == 0


@in_virtual_time
async def test_there_is_an_end_to_trying() -> None:
    receiver = Receiver(*(OSError() for _ in range(9)))
    stage = Stage()
    work = declare(stage.app)
    stage.app.sink("billing", receiver, max_attempts=3)
    async with stage.node():
        await work.enqueue()
        await stage.until(lambda: stage.told(EventUndeliverable))
    assert len(receiver.troubles) == 6


@in_virtual_time
async def test_a_delivery_that_hangs_is_given_up_in_time() -> None:
    stage, got = Stage(), list[OutboxEvent]()
    work = declare(stage.app)

    async def receive(event: OutboxEvent) -> None:
        if event.tries == 1:
            await asyncio.sleep(3600)
        got.append(event)

    stage.app.sink("billing", receive, timeout=3)
    async with stage.node():
        await work.enqueue()
        took = await stage.until(lambda: got)
    assert 3 <= took <= 5
    assert stage.told(SinkTrouble)[0].error == "TimeoutError: took longer than 3 s"


@in_virtual_time
async def test_a_slow_sink_keeps_no_other_waiting() -> None:
    stage, got = Stage(), list[OutboxEvent]()
    work = declare(stage.app)

    async def crawl(event: OutboxEvent) -> None:
        await asyncio.sleep(3600)

    stage.app.sink("slow", crawl, timeout=600)
    stage.app.sink("quick", got.append)
    async with stage.node():
        for _ in range(30):
            await work.enqueue()
        took = await stage.until(lambda: len(got) == 30)
        assert took < 30


@in_virtual_time
async def test_a_busy_sink_keeps_no_other_waiting() -> None:
    """A long outbox of one sink is not in the way of the single event of another."""
    stage, busy, rare = Stage(), list[OutboxEvent](), list[int]()
    worker = stage.new_app()
    declare(worker)
    work = declare(stage.app)

    async def receive(event: OutboxEvent) -> None:
        await asyncio.sleep(0.01)
        busy.append(event)

    stage.app.sink("busy", receive, events=(JobSucceeded,))
    stage.app.sink("rare", lambda _event: rare.append(len(busy)), events=(JobDied,))
    async with stage.node(worker):
        await stage.app.enqueue_many([work.bind() for _ in range(300)])
        await stage.until(lambda: len(stage.tables.events) == 300)
        async with stage.node(queues={"other": 1}):
            await stage.until(lambda: len(busy) > 50)
            await work.enqueue(True)
            await stage.until(lambda: len(busy) == 300 and rare)
    assert rare[0] < 150


@in_virtual_time
async def test_an_event_that_kills_whoever_delivers_it_is_given_up() -> None:
    stage, receiver = Stage(), Receiver()
    work = declare(stage.app)
    stage.app.sink("billing", receiver, max_attempts=3)
    worker = stage.new_app()
    declare(worker)
    async with stage.node(worker):
        await (await work.enqueue()).result(timeout=5)
    for _ in range(3):
        # Somebody takes it, and is never heard of again.
        assert (await stage.store.take_events({"billing": 1}, timedelta(0))).events
    async with stage.node():
        await stage.until(lambda: stage.told(EventUndeliverable))
        assert receiver.got == []
        assert "begun 3 times" in stage.told(EventUndeliverable)[0].error
        await stage.app.outbox.retry()
        await stage.until(lambda: receiver.got)


class Blocking:
    """A sink whose author forgot that `deliver` is async."""

    def __init__(self) -> None:
        self.got: list[tuple[str, bool]] = []

    def deliver(self, event: OutboxEvent, alert: object) -> None:
        on_loop = threading.current_thread() is threading.main_thread()
        self.got.append((event.kind, on_loop))


class Leaving:
    """A sink that raises what is not meant for it."""

    def __init__(self, error: BaseException) -> None:
        self._error = error

    async def deliver(self, event: OutboxEvent, alert: object) -> None:
        raise self._error


@in_virtual_time
async def test_a_sink_that_blocks_is_not_told_again_and_again() -> None:
    stage, sink = Stage(), Blocking()
    work = declare(stage.app)
    stage.app.sink("billing", sink)  # type: ignore[arg-type]
    async with stage.node():
        await (await work.enqueue()).result(timeout=5)
        await stage.until(lambda: sink.got and not stage.tables.events)
        await asyncio.sleep(60)
    assert sink.got == [("succeeded", False)]


@in_virtual_time
async def test_what_is_undeliverable_for_too_long_goes_however_much_it_is() -> None:
    config = Config(events=EventsConfig(keep_undeliverable=timedelta(hours=1)))
    stage, many = Stage(config), 1_300
    work = declare(stage.app)
    never = Receiver(*[DeliveryFailed("no") for _ in range(many)])
    stage.app.sink("billing", never, max_attempts=1)
    async with stage.node():
        await stage.app.enqueue_many([work.bind() for _ in range(many)])
        await stage.until(lambda: len(stage.told(EventUndeliverable)) == many)
        await asyncio.sleep(timedelta(hours=2, minutes=5).total_seconds())
        assert not stage.tables.events


@in_virtual_time
async def test_whatever_a_sink_raises_the_node_goes_on() -> None:
    stage = Stage()
    work = declare(stage.app)
    stage.app.sink("billing", Leaving(SystemExit(3)), max_attempts=2)
    stage.app.sink("canceled", Leaving(asyncio.CancelledError("mine")), max_attempts=2)
    async with stage.node():
        await work.enqueue()
        await stage.until(lambda: len(stage.told(EventUndeliverable)) == 2)
        await (await work.enqueue()).result(timeout=5)
    assert sorted(event.error for event in stage.told(EventUndeliverable)) == [
        "CancelledError: mine",
        "SystemExit: 3",
    ]


@pytest.mark.parametrize("ending", [SystemExit(3), KeyboardInterrupt()])
def test_a_blocking_function_that_ends_the_program_does_not(ending: BaseException) -> None:
    @in_virtual_time
    async def test() -> None:
        stage = Stage()
        work = declare(stage.app)

        def receive(event: OutboxEvent) -> None:
            raise ending

        stage.app.sink("billing", receive, max_attempts=1)
        async with stage.node():
            await work.enqueue()
            await stage.until(lambda: stage.told(EventUndeliverable))

    test()


@in_virtual_time
async def test_a_function_that_returns_something_to_await_is_awaited() -> None:
    stage, receiver = Stage(), Receiver(OSError("no route"))
    work = declare(stage.app)
    stage.app.sink("billing", lambda event: receiver.deliver(event, None))
    async with stage.node():
        await work.enqueue()
        await stage.until(lambda: receiver.got)
    assert receiver.got[0].tries == 2, "and what it raises counts"


@in_virtual_time
async def test_the_events_of_a_node_that_dies_are_delivered_by_another() -> None:
    stage, receiver = Stage(), Receiver()
    work = declare(stage.app)
    stage.app.sink("billing", receiver)
    other = stage.new_app()
    declare(other)
    other.sink("billing", receiver)
    async with stage.node():
        job = await work.enqueue()
        await job.result(timeout=5)
    # It took the event, and was never heard of again.
    receiver.got.clear()
    again = await work.enqueue()
    async with stage.node(queues={"default": 1}) as node:
        stage.line.lose("take_events", reply=True)
        await again.result(timeout=5)
        await stage.until(lambda: stage.line.count("take_events") > 2)
        node.stop(now=True)
    async with stage.node(other):
        await stage.until(lambda: receiver.got, 120)
    assert [event.job for event in receiver.got] == [again.id]
    assert receiver.got[0].tries in (1, 2)


@in_virtual_time
async def test_what_could_not_be_noted_as_delivered_is_delivered_once_more() -> None:
    stage, receiver = Stage(), Receiver()
    work = declare(stage.app)
    stage.app.sink("billing", receiver)
    async with stage.node():
        stage.line.lose("events_delivered", times=3)
        await work.enqueue()
        await stage.until(lambda: receiver.got)
        await stage.until(lambda: not stage.tables.events)
    assert len(receiver.got) == 1, "it is noted as soon as the store answers again"


@in_virtual_time
async def test_a_node_that_stops_gives_back_what_it_cannot_deliver() -> None:
    stage, receiver = Stage(), Receiver()
    work = declare(stage.app)

    async def hang(event: OutboxEvent) -> None:
        await asyncio.sleep(3600)

    stage.app.sink("billing", hang, timeout=600)
    async with stage.node():
        await work.enqueue()
        await stage.until(lambda: [row for row in stage.tables.events.values() if row.event.tries])
        before = stage.now
    assert stage.now - before < 20
    other = stage.new_app()
    other.sink("billing", receiver)
    async with stage.node(other):
        took = await stage.until(lambda: receiver.got) - stage.now
        assert took < 1, "nobody has to wait for a lease to end"


@in_virtual_time
async def test_a_blocking_function_is_a_sink_too() -> None:
    stage, got = Stage(), list[Any]()
    work = declare(stage.app)

    def receive(event: OutboxEvent) -> None:
        if event.tries == 1:
            raise OSError("no route")
        got.append(event.kind)

    stage.app.sink("billing", receive)
    async with stage.node():
        await work.enqueue()
        await stage.until(lambda: got)
    assert got == ["succeeded"]


class NotToCall:
    """Something with the right name, and nothing behind it."""

    deliver = "by pigeon"


def yielding(event: OutboxEvent) -> Iterator[None]:
    """Would deliver nothing, and nobody would notice."""
    yield


class TakesNothing:
    """A sink that could not be given an event."""

    async def deliver(self) -> None: ...


class Unhurried(Receiver):
    """A sink that does not say in seconds how long it takes."""

    timeout = "never"


@pytest.mark.parametrize(
    "arguments, problem",
    [
        ({"name": "a b"}, "sink 'a b'"),
        ({"sink": "https://example.com"}, r"a sink such as WebhookSink\(url\), or a function"),
        ({"events": ()}, r"events = \(\): must name at least one"),
        ({"events": (JobStarted,)}, "events = JobStarted: must be of JobSucceeded, JobDied"),
        ({"tasks": ()}, r"tasks = \(\): must name at least one"),
        ({"tasks": ("",)}, "tasks = '': must be names such as"),
        ({"timeout": 0}, "timeout = 0: must be a timedelta or seconds, above 0, at most 600"),
        ({"timeout": "5"}, "timeout = '5': must be a timedelta or seconds"),
        ({"timeout": True}, "timeout = True: must be a timedelta or seconds"),
        ({"timeout": math.nan}, "timeout = nan: must be a timedelta or seconds"),
        ({"timeout": timedelta(hours=1)}, r"timeout = .*: must be a timedelta or seconds"),
        ({"max_attempts": 0}, "max_attempts = 0: must be 1 to 100"),
        ({"max_attempts": 2.5}, "max_attempts = 2.5: must be 1 to 100"),
        ({"max_attempts": "3"}, "max_attempts = '3': must be 1 to 100"),
        ({"max_attempts": True}, "max_attempts = True: must be 1 to 100"),
        ({"events": JobDied}, "events = JobDied: must be a list of some of JobSucceeded"),
        ({"tasks": 5}, "tasks = 5: must be names such as"),
        ({"sink": WebhookSink}, "must be a sink such as WebhookSink"),
        ({"sink": NotToCall()}, "must be a sink such as WebhookSink"),
        ({"sink": yielding}, "must be a sink such as WebhookSink"),
        ({"sink": lambda: None}, "must be a sink such as WebhookSink"),
        ({"sink": TakesNothing()}, "must be a sink such as WebhookSink"),
        ({"sink": Unhurried()}, r"timeout = 'never': must be a timedelta or seconds"),
    ],
)
def test_a_sink_that_cannot_be_is_refused(arguments: dict[str, Any], problem: str) -> None:
    app = App("memory://")
    given = {"name": "billing", "sink": print, **arguments}
    with pytest.raises(ConfigError, match=problem):
        app.sink(given.pop("name"), given.pop("sink"), **given)
    app.sink("billing", print, events=[JobDied, JobDied])
    assert app._sinks_of("any") == {"billing": ["failed"]}, "told once"
    with pytest.raises(ConfigError, match="declared already"):
        app.sink("billing", print)


@given(st.integers(1, 200), st.integers(1, 100), st.floats(0.5, 1.0), st.booleans())
def test_pauses_grow_and_end(tries: int, most: int, share: float, refused: bool) -> None:
    delay = next_delay(tries, most, share, refused=refused)
    assert (delay is None) == (tries >= (min(most, 3) if refused else most))
    if delay is not None:
        assert timedelta(0) < delay <= LONGEST


@pytest.mark.parametrize("seed", range(10))
def test_whatever_is_lost_on_the_way_every_end_arrives(seed: int) -> None:
    """Requests and replies are lost, the sink fails, a node stops; nothing is missing then."""

    @in_virtual_time
    async def test() -> None:
        dice = random.Random(seed)
        stage, got = Stage(), list[OutboxEvent]()

        async def receive(event: OutboxEvent) -> None:
            await asyncio.sleep(dice.uniform(0.0, 0.5))
            if dice.random() < 0.3:
                raise OSError("no route")
            got.append(event)

        apps = [stage.app, stage.new_app()]
        works = [declare(app) for app in apps]
        for app in apps:
            app.sink("billing", receive, max_attempts=100)
        for statement in ("take_events", "events_delivered", "put_off_event", "finish_hooked"):
            for reply in (True, False):
                stage.line.lose(
                    statement, reply=reply, times=8, matching=lambda _call: dice.random() < 0.4
                )
        jobs = []
        async with stage.node(apps[0], concurrency=3):
            async with stage.node(apps[1], concurrency=3):
                for number in range(30):
                    jobs.append(await works[number % 2].enqueue(number % 5 == 0))
                    await asyncio.sleep(dice.uniform(0.0, 0.3))
                again = jobs[0].id
                await stage.until(lambda: again in stage.tables.outcome)
                await stage.app.jobs.retry(again)
            await stage.until(lambda: len(stage.tables.outcome) == 30, 600)
            await stage.until(lambda: not stage.tables.events, 3600)
        assert {event.job for event in got} == {job.id for job in jobs}
        lives = [event.generation for event in got if event.job == again]
        assert lives == sorted(lives), "those of one job come in order"
        assert set(lives) == {1, 2}

    test()
