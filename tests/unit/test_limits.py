"""Limits from the declaration to the slot: never too many, never stuck, refused when impossible."""

import asyncio
import math
import re
from collections import Counter
from collections.abc import Awaitable, Callable
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from detent import App, ConfigError, InvalidJob, JobContext, Rate, RetryAfter
from detent.errors import NotAllowed
from detent.model.access import Action, Target
from detent.model.gates import gates_of
from detent.model.limits import Limit
from detent.model.rates import Algorithm
from detent.spi.limits import GatedAnswer, GatedRequest
from detent.stores.memory import MemoryNotifier, MemoryStore
from detent.tasks import BoundCall, Task
from detent.testing.simulation.stage import Stage
from detent.testing.virtual import in_virtual_time


@pytest.fixture
def app() -> App:
    return App(store=MemoryStore(), notifier=MemoryNotifier())


class Meter:
    """Counts what runs at once, by key."""

    def __init__(self) -> None:
        self.running: Counter[str] = Counter()
        self.most: Counter[str] = Counter()
        self.order: dict[str, list[int]] = {}

    async def run(self, key: str, number: int) -> None:
        self.running[key] += 1
        self.most[key] = max(self.most[key], self.running[key])
        self.order.setdefault(key, []).append(number)
        for _ in range(3):
            await asyncio.sleep(0)
        self.running[key] -= 1


async def test_a_resource_has_so_many_permits(app: App) -> None:
    meter = Meter()
    app.limit("smtp", concurrency=3)

    @app.task(resource="smtp")
    async def send(number: int) -> None:
        await meter.run("all", number)

    jobs = await app.enqueue_many([send.bind(number) for number in range(30)])
    async with app.node(concurrency=20):
        for job in jobs:
            await job.result(timeout=10)
    assert meter.most["all"] == 3


async def test_weights(app: App) -> None:
    meter = Meter()
    app.limit("cpu", concurrency=4)

    @app.task(resource="cpu", weight=2)
    async def crunch(number: int) -> None:
        await meter.run("all", number)

    jobs = await app.enqueue_many([crunch.bind(number) for number in range(10)])
    async with app.node(concurrency=20):
        for job in jobs:
            await job.result(timeout=10)
    assert meter.most["all"] == 2


async def test_one_per_key_is_strict_serial_order(app: App) -> None:
    meter = Meter()

    @app.task(concurrency=1, concurrency_key=lambda order, **_: order)
    async def ship(order: str, number: int) -> None:
        await meter.run(order, number)

    calls = [ship.bind(f"order {number % 5}", number) for number in range(50)]
    jobs = await app.enqueue_many(calls)
    async with app.node(concurrency=20):
        for job in jobs:
            await job.result(timeout=10)
    assert set(meter.most.values()) == {1}
    assert all(numbers == sorted(numbers) for numbers in meter.order.values())


async def test_plain_jobs_and_limited_ones_do_not_starve_each_other(app: App) -> None:
    done: list[str] = []

    @app.task
    async def plain() -> None:
        await asyncio.sleep(0)
        done.append("plain")

    @app.task(concurrency=100)
    async def limited() -> None:
        await asyncio.sleep(0)
        done.append("limited")

    jobs = await app.enqueue_many([plain.bind() for _ in range(200)])
    jobs += await app.enqueue_many([limited.bind() for _ in range(200)])
    async with app.node(concurrency=1):
        for job in jobs:
            await job.result(timeout=20)
    half = Counter(done[:200])
    assert min(half.values()) > 60, half


async def test_fair_keys_have_turns(app: App) -> None:
    done: list[str] = []

    @app.task(fair_key=lambda tenant: tenant)
    async def work(tenant: str) -> None:
        done.append(tenant)

    calls = [work.bind("big") for _ in range(100)] + [work.bind("small") for _ in range(10)]
    jobs = await app.enqueue_many(calls)
    async with app.node(concurrency=2):
        for job in jobs:
            await job.result(timeout=10)
    assert "small" not in done[60:], done


async def test_weights_count_when_slots_become_free_one_at_a_time(app: App) -> None:
    done: list[str] = []

    @app.task(fair_key=lambda tenant: (tenant, 3 if tenant == "gold" else 1))
    async def work(tenant: str) -> None:
        done.append(tenant)

    jobs = await app.enqueue_many([work.bind(name) for name in ("gold", "tin") for _ in range(40)])
    async with app.node(concurrency=1):
        for job in jobs:
            await job.result(timeout=10)
    assert Counter(done[:40])["gold"] == pytest.approx(30, abs=3), done


async def test_a_key_has_one_share_in_however_many_lanes_its_jobs_stand(app: App) -> None:
    done: list[str] = []

    @app.task(fair_key=lambda tenant, **_: tenant, concurrency=9, concurrency_key=lambda part: part)
    async def work(tenant: str, part: int) -> None:
        done.append(tenant)

    calls = [work.bind("split", number % 10) for number in range(60)]
    jobs = await app.enqueue_many(calls + [work.bind("whole", 99) for _ in range(30)])
    async with app.node(concurrency=1):
        for job in jobs:
            await job.result(timeout=10)
    assert Counter(done[:40])["whole"] == pytest.approx(20, abs=3), done


async def test_the_most_urgent_goes_first_whatever_gate_it_stands_behind(app: App) -> None:
    done: list[str] = []

    @app.task(concurrency=1, concurrency_key=lambda key: key)
    async def work(key: str) -> None:
        done.append(key)

    calls = [work.options(priority=1).bind(f"low {number}") for number in range(30)]
    calls += [work.options(priority=number % 4 + 1).bind(f"mixed {number}") for number in range(8)]
    calls += [work.options(priority=4).bind("critical")]
    jobs = await app.enqueue_many(calls)
    async with app.node(concurrency=1):
        for job in jobs:
            await job.result(timeout=10)
    assert set(done[:3]) == {"mixed 3", "mixed 7", "critical"}
    assert set(done[3:5]) == {"mixed 2", "mixed 6"}
    assert set(done[5:7]) == {"mixed 1", "mixed 5"}


async def test_a_critical_job_that_comes_late_is_next(app: App) -> None:
    done: list[str] = []
    begun, release = asyncio.Event(), asyncio.Event()

    @app.task(concurrency=1, concurrency_key=lambda key: key)
    async def work(key: str) -> None:
        done.append(key)
        begun.set()
        await release.wait()

    jobs = await app.enqueue_many([work.bind(f"key {number % 10}") for number in range(40)])
    async with app.node(concurrency=1):
        await asyncio.wait_for(begun.wait(), 10)
        jobs.append(await work.options(priority=4).enqueue("late"))
        release.set()
        for job in jobs:
            await job.result(timeout=10)
    # One may have been claimed already, to be there when a slot is free.
    assert "late" in done[1:3], done


@in_virtual_time
async def test_without_shares_the_oldest_is_next() -> None:
    stage, done, order = Stage(), [], [0, 3, 6, 9, 1, 4, 2, 12, 5, 7]

    @stage.app.task(name="work", concurrency=9, concurrency_key=lambda number: number % 3)
    async def work(number: int) -> None:
        done.append(number)

    jobs = []
    for number in order:
        jobs.append(await work.enqueue(number))
        await asyncio.sleep(0.1)
    async with stage.app.node(concurrency=1):
        for job in jobs:
            await job.result(timeout=10)
    assert done == order


async def test_within_a_priority_shares_have_turns(app: App) -> None:
    done: list[tuple[str, int]] = []

    @app.task(fair_key=lambda tenant, **_: tenant)
    async def work(tenant: str, level: int) -> None:
        done.append((tenant, level))

    calls = [
        work.options(priority=level).bind(tenant, level)
        for tenant in ("a", "b")
        for level in (1, 3)
        for _ in range(10)
    ]
    jobs = await app.enqueue_many(calls)
    async with app.node(concurrency=1):
        for job in jobs:
            await job.result(timeout=10)
    assert {level for _, level in done[:20]} == {3}, done
    for part in (done[:10], done[20:30]):
        assert Counter(tenant for tenant, _ in part)["a"] == pytest.approx(5, abs=1), done


async def test_jobs_of_a_paused_queue_are_not_asked_for_again_and_again() -> None:
    store = MemoryStore()
    app = App(store=store, notifier=MemoryNotifier())
    asked = 0
    claim = store.claim_gated

    async def counted(request: GatedRequest) -> GatedAnswer:
        nonlocal asked
        asked += 1
        return await claim(request)

    store.claim_gated = counted  # type: ignore[method-assign]

    @app.task(concurrency=1)
    async def work() -> None: ...

    await app.queues.pause("default")
    job = await work.enqueue()
    async with app.node(concurrency=5):
        # Long enough for a dozen claims, if it asked again and again.
        await asyncio.sleep(0.3)
        assert asked <= 3
        await app.queues.resume("default")
        await job.result(timeout=10)


async def test_a_queue_shares_fairly_whatever_its_jobs_are(app: App) -> None:
    done: list[str] = []

    @app.task(queue="mail")
    async def send(tenant: str) -> None:
        done.append(tenant)

    app.queue("mail", fair_key="tenant", weights={"gold": 3})

    @app.task(queue="mail", concurrency=50)
    async def archive(number: int, tenant: str = "tin") -> None:
        done.append(tenant)

    @app.task
    async def ping() -> None:
        done.append("none")

    calls = [send.bind("gold") for _ in range(60)]
    calls += [archive.bind(number) for number in range(60)]
    calls += [ping.options(queue="mail", tags=["tenant:tagged"]).bind() for _ in range(20)]
    jobs = await app.enqueue_many(calls)
    async with app.node(queues={"mail": 1}):
        for job in jobs:
            await job.result(timeout=10)
    first = Counter(done[:50])
    assert first["gold"] == pytest.approx(30, abs=3), first
    assert first["tin"] == pytest.approx(10, abs=2), first
    assert first["none"] == pytest.approx(10, abs=2), first


async def test_shares_and_priorities_on_sqlite(tmp_path: Path) -> None:
    app = App(f"sqlite:///{tmp_path}/jobs.db")
    done: list[tuple[str, int]] = []
    app.queue("default", fair_key="tenant", weights={"gold": 3})

    @app.task
    async def work(tenant: str, level: int) -> None:
        done.append((tenant, level))

    calls = [
        work.options(priority=level).bind(tenant, level)
        for level in (1, 3)
        for tenant in ("gold", "tin")
        for _ in range(20)
    ]
    async with app:
        jobs = await app.enqueue_many(calls)
        async with app.node(concurrency=1):
            for job in jobs:
                await job.result(timeout=20)
    assert {level for _, level in done[:40]} == {3}, done
    assert Counter(tenant for tenant, _ in done[:20])["gold"] == pytest.approx(15, abs=2), done
    assert Counter(tenant for tenant, _ in done[40:60])["gold"] == pytest.approx(15, abs=2), done


async def test_weights_can_be_changed_while_jobs_run(app: App) -> None:
    done: list[str] = []
    changed = asyncio.Event()
    app.queue("default", fair_key="tenant")

    @app.task
    async def work(tenant: str) -> None:
        if len(done) == 20:
            await app.limits.share("default", "b", 4)
            changed.set()
        done.append(tenant)

    jobs = await app.enqueue_many([work.bind(name) for name in ("a", "b") for _ in range(70)])
    async with app.node(concurrency=1):
        for job in jobs:
            await job.result(timeout=10)
    assert changed.is_set()
    assert Counter(done[:20])["b"] == pytest.approx(10, abs=2), done
    assert Counter(done[25:75])["b"] == pytest.approx(40, abs=3), done
    (info,) = await app.limits.list()
    assert (info.limit, info.edited) == (Limit("fair:default#b", weight=4), True)
    await app.limits.share("default", "b", None)
    assert await app.limits.list() == []


async def test_where_jobs_of_a_fair_queue_stand(app: App) -> None:
    app.queue("mail", fair_key="tenant")
    app.queue("render", fair_key=lambda page: (f"book {700 // page}", 2))

    @app.task(queue="mail", name="send")
    async def send(tenant: str | None = None) -> None: ...

    @app.task(queue="mail", name="own", fair_key=lambda to: to)
    async def own(to: str, tenant: str) -> None: ...

    @app.task(queue="render", name="render")
    async def render(page: int) -> None: ...

    @app.task(queue="mail", name="many")
    async def many(tenant: list[str]) -> None: ...

    def lane(call: BoundCall[None]) -> str:
        return app.client.prepare(call).job.lane

    assert lane(send.bind("a+b")) == "mail~fair:mail#a%2Bb"
    assert lane(send.bind()) == "mail~fair:mail#"
    assert lane(send.options(tags=["x", "tenant:acme"]).bind()) == "mail~fair:mail#acme"
    assert lane(send.options(queue="other").bind("a")) == "other"
    assert lane(send.options(queue="render").bind("a")) == "render~fair:render#"
    assert lane(send.options(needs="gpu").bind("a")) == "mail+gpu~fair:mail#a"
    assert lane(own.bind("me", "a")) == "mail~fair:mail#me", "the task says it more closely"
    assert lane(render.bind(100)) == "render~fair:render#book 7*2"
    with pytest.raises(InvalidJob, match=r"fair_key of render, .*lambda.*, raised ZeroDivision"):
        lane(render.bind(0))
    with pytest.raises(InvalidJob, match=r"fair_key of send returned 'x{40}'...: 256 characters"):
        lane(send.bind("x" * 256))
    with pytest.raises(InvalidJob, match="must be a text or a whole number"):
        lane(many.bind(["a"]))


@pytest.mark.parametrize(
    "name, options, words",
    [
        ("a b", {"fair_key": "tenant"}, "queue 'a b': must be"),
        ("mail", {"fair_key": ""}, "fair_key = '' of the queue mail: must be the name"),
        ("mail", {"fair_key": 7}, "fair_key = 7 of the queue mail"),
        ("mail", {"fair_key": "t", "weights": [1]}, r"weights = \[1\]: must name keys"),
        ("mail", {"fair_key": "t", "weights": {"a": 0}}, "weight = 0 of fair:mail#a: must be 1"),
        ("mail", {"fair_key": "t", "weights": {"a": True}}, "weight = True"),
        ("mail", {"fair_key": "t", "weights": {1.5: 1}}, "key = 1.5 of the queue mail"),
        ("mail", {"fair_key": "t", "weights": {"a\nb": 1}}, r"key = 'a\\nb' of the queue mail"),
        ("mail", {"fair_key": "t", "weights": {"a" * 256: 1}}, "key = 'a{256}' of the queue"),
    ],
)
def test_impossible_shares_are_refused(
    app: App, name: str, options: dict[str, Any], words: str
) -> None:
    with pytest.raises(ConfigError, match=words):
        app.queue(name, **options)


async def test_shares_are_declared_once_and_are_no_limits(app: App) -> None:
    app.queue("mail", fair_key="tenant")
    app.queue("mail", fair_key="tenant")
    with pytest.raises(ConfigError, match="declared twice"):
        app.queue("mail", fair_key="customer")
    with pytest.raises(ConfigError, match="a fair share has a weight and nothing else"):
        await app.limits.set("fair:mail#a", concurrency=3)
    with pytest.raises(ConfigError, match="weight = 0"):
        await app.limits.share("mail", "a", 0)
    assert await app.limits.list() == []


async def test_who_may_change_limits_is_asked(app: App) -> None:
    asked: list[tuple[str, str, str | None]] = []

    @app.authorize
    def may(principal: str | None, action: Action, target: Target) -> bool:
        asked.append((action, str(target), target.queue))
        return False

    changes: list[Callable[[], Awaitable[object]]] = [
        lambda: app.limits.set("smtp", concurrency=1),
        lambda: app.limits.set("queue:mail", concurrency=1),
        lambda: app.limits.share("mail", "gold", 3),
        lambda: app.limits.share("mail", "gold", None),
        lambda: app.limits.reset("smtp"),
    ]
    for change in changes:
        with pytest.raises(NotAllowed, match="is not allowed to configure the limit"):
            await change()
    assert asked == [
        ("configure", "the limit resource:smtp", None),
        ("configure", "the limit queue:mail", "mail"),
        ("configure", "the limit fair:mail#gold", "mail"),
        ("configure", "the limit fair:mail#gold", "mail"),
        ("configure", "the limit resource:smtp", None),
    ]
    assert await app.limits.list() == []


async def test_the_limit_of_a_queue_holds_for_plain_jobs(app: App) -> None:
    meter = Meter()
    app.limit("queue:default", concurrency=2)

    @app.task
    async def work(number: int) -> None:
        await meter.run("all", number)

    jobs = await app.enqueue_many([work.bind(number) for number in range(20)])
    async with app.node(concurrency=10):
        for job in jobs:
            await job.result(timeout=10)
    assert meter.most["all"] == 2


@in_virtual_time
async def test_a_node_that_declares_the_limit_of_a_queue_begins_at_once() -> None:
    stage = Stage()
    stage.app.limit("queue:default", concurrency=2)

    @stage.app.task(name="work")
    async def work() -> None: ...

    job = await work.enqueue()
    begun = stage.runtime.monotonic()
    async with stage.app.node():
        await job.result(timeout=10)
    assert stage.runtime.monotonic() - begun < 0.5


async def test_a_limit_can_be_changed_while_jobs_run(app: App) -> None:
    meter = Meter()
    app.limit("smtp", concurrency=1)
    release, news = asyncio.Event(), asyncio.Condition()

    @app.task(resource="smtp")
    async def send(number: int) -> None:
        meter.running["now"] += 1
        async with news:
            news.notify_all()
        await release.wait()

    await app.enqueue_many([send.bind(number) for number in range(10)])
    async with app.node(concurrency=10):
        async with asyncio.timeout(10), news:
            await news.wait_for(lambda: meter.running["now"] == 1)
            await app.limits.set("smtp", concurrency=4)
            await news.wait_for(lambda: meter.running["now"] == 4)
        info = await app.limits.get("smtp")
        assert info is not None
        assert (info.limit.concurrency, info.edited, info.running) == (4, True, 4)
        release.set()
    assert await app.limits.reset("smtp") == Limit("resource:smtp", 1)


async def test_a_name_that_no_limit_can_have_is_refused(app: App) -> None:
    with pytest.raises(ConfigError, match=r"limit name = 'smtp\\x00': must be a text without NUL"):
        await app.limits.reset("smtp\0")


async def test_a_failed_job_gives_its_permit_back(app: App) -> None:
    tries: list[int] = []

    @app.task(concurrency=1)
    async def flaky(ctx: JobContext, number: int) -> None:
        tries.append(number)
        if ctx.attempt == 1:
            raise RetryAfter(timedelta(0))

    jobs = await app.enqueue_many([flaky.bind(number) for number in range(3)])
    async with app.node(concurrency=5):
        for job in jobs:
            await job.result(timeout=10)
    assert len(tries) == 6


async def test_a_rate_is_kept(app: App) -> None:
    @app.task(rate=Rate(100, burst=5))
    async def call(number: int) -> None:
        started.append(asyncio.get_running_loop().time())

    started: list[float] = []
    await _run(app, call, 25)
    assert started[-1] - started[0] >= 0.18, "5 at once, then one each 10 ms"


@pytest.mark.parametrize("limit", [{"concurrency": 1}, {"rate": Rate(1, per=timedelta(hours=1))}])
@in_virtual_time
async def test_jobs_that_come_to_a_full_gate_are_not_asked_for(limit: dict[str, Any]) -> None:
    stage, end = Stage(), asyncio.Event()

    async def hold() -> None:
        await end.wait()

    work = stage.app.task(name="work", **limit)(hold)
    async with stage.app.node():
        first = await work.enqueue()
        await asyncio.sleep(1)
        later = [await work.enqueue()]
        await asyncio.sleep(0.1)
        before = stage.line.count("claim_gated")
        for _ in range(50):
            later.append(await work.enqueue())
            await asyncio.sleep(0.01)
        assert stage.line.count("claim_gated") == before
        end.set()
        await first.result(timeout=1)
        if "rate" in limit:
            await stage.app.limits.set("rate:work", rate=Rate(1_000))
        for job in later:
            await job.result(timeout=1)


@in_virtual_time
async def test_a_rate_that_is_raised_holds_at_once() -> None:
    stage = Stage()

    @stage.app.task(name="call", rate=Rate(1, per=timedelta(hours=1)))
    async def call() -> None: ...

    async with stage.app.node():
        first, *others = await stage.app.enqueue_many([call.bind() for _ in range(4)])
        await first.result(timeout=10)
        await asyncio.sleep(1)
        await stage.app.limits.set("rate:call", rate=Rate(100))
        for job in others:
            await job.result(timeout=1)


@in_virtual_time
async def test_shares_have_their_turns_under_one_rate() -> None:
    stage, done = Stage(), ""
    stage.app.queue("render", fair_key="tenant", weights={"gold": 3})

    @stage.app.task(name="call", queue="render", rate=Rate(50, burst=1))
    async def call(tenant: str) -> None:
        nonlocal done
        done += tenant[0]

    calls = [call.bind(tenant) for tenant in ["acme", "gold"] * 20]
    async with stage.app.node(queues={"render": 4}):
        for job in await stage.app.enqueue_many(calls):
            await job.result(timeout=10)
        # It is asked for each token, and now and then for what is heard; not for each end.
        assert stage.line.count("claim_gated") < 60
    assert 14 <= done[1:21].count("g") <= 16, done


async def test_a_rate_of_a_queue_holds_for_all_its_jobs(app: App) -> None:
    app.limit("queue:default", rate=Rate(100, burst=5))

    @app.task
    async def call(number: int) -> None:
        started.append(asyncio.get_running_loop().time())

    started: list[float] = []
    await _run(app, call, 25)
    assert started[-1] - started[0] >= 0.18


async def test_a_rate_of_each_key_by_window(app: App) -> None:
    rate = Rate(5, timedelta(milliseconds=200), algorithm=Algorithm.WINDOW)

    @app.task(rate=rate, rate_key=lambda number: number % 2)
    async def call(number: int) -> None:
        started.append((number % 2, asyncio.get_running_loop().time()))

    started: list[tuple[int, float]] = []
    await _run(app, call, 20)
    for key in (0, 1):
        moments = [at for each, at in started if each == key]
        assert len(moments) == 10
        assert moments[5] - moments[0] >= 0.18, "five in any window of 200 ms"


async def _run(app: App, call: Task[[int], None], count: int) -> None:
    jobs = await app.enqueue_many([call.bind(number) for number in range(count)])
    async with app.node(concurrency=50):
        for job in jobs:
            await job.result(timeout=10)


async def test_lanes_of_calls(app: App) -> None:
    app.limit("smtp", concurrency=3)

    @app.task(
        name="send",
        queue="mail",
        needs="gpu",
        resource="smtp",
        weight=2,
        concurrency=1,
        concurrency_key=lambda to: to,
        rate=Rate(5),
        fair_key=lambda to: (to[:1], 3),
    )
    async def send(to: str) -> None: ...

    job, _ = app.client.prepare(send.bind("a~b"))
    assert job.lane == "mail+gpu~fair:mail#a*3~rate:send~resource:smtp*2~task:send#a%7Eb"
    assert sum(gate.weight for gate in gates_of(job.lane)) == 7


@pytest.mark.parametrize(
    "options, words",
    [
        ({"concurrency": 0}, "concurrency = 0: must be 1 to"),
        ({"concurrency": True}, "concurrency = True"),
        ({"weight": 2}, "weight = 2: weighs nothing without resource="),
        ({"resource": "smtp", "weight": 0}, "weight = 0: must be 1 to"),
        ({"resource": "smtp", "weight": 4}, "would never run, resource 'smtp' has 3 permits"),
        ({"resource": "api", "weight": 3}, "'api' has a rate that lets 2 in at once"),
        ({"resource": "s+"}, r"resource 's\+': must be"),
        ({"concurrency_key": lambda number: number}, "concurrency_key without concurrency="),
        ({"concurrency": 1, "concurrency_key": "order"}, "must be a function"),
        ({"concurrency": 1, "concurrency_key": lambda order: order}, "takes 'order', which is no"),
        ({"rate": 5}, r"rate = 5: must be a Rate\(...\)"),
        ({"rate_key": lambda number: number}, "rate_key without rate="),
    ],
)
def test_impossible_limits_are_refused_where_they_are_declared(
    app: App, options: dict[str, object], words: str
) -> None:
    app.limit("smtp", concurrency=3)
    app.limit("api", concurrency=5, rate=Rate(10, burst=2))
    with pytest.raises(ConfigError, match=words):

        @app.task(**options)  # type: ignore[call-overload, untyped-decorator]
        async def work(number: int) -> None: ...


def test_impossible_resources_are_refused(app: App) -> None:
    for name, concurrency, words in (
        ("smtp", 0, "concurrency = 0: must be 1 to"),
        ("smtp", None, "must have a concurrency or a rate"),
        ("task:send", 1, "only resources and queues"),
        ("a b", 1, "resource 'a b': must be"),
    ):
        with pytest.raises(ConfigError, match=words):
            app.limit(name, concurrency=concurrency)


@pytest.mark.parametrize(
    "name, words",
    [
        ("queue:a b", "queue 'a b': must be"),
        ("a\0b", "resource 'a.x00b': must be"),
        ("task:a\nb", "must be at most 300 characters that can be printed"),
        ("task:" + "a" * 300, "must be at most 300 characters"),
        ("fair:mail", "must be one of"),
    ],
)
async def test_impossible_names_are_refused_while_it_runs(app: App, name: str, words: str) -> None:
    with pytest.raises(ConfigError, match=words):
        await app.limits.set(name, concurrency=1)
    assert await app.limits.list() == []


@pytest.mark.parametrize(
    "options",
    [
        *({"count": count} for count in (0, -1, True, 1.5, math.nan, "5", None, 10**12)),
        *({"count": 5, "per": per} for per in (0, "soon", None, timedelta(0), timedelta.max)),
        *({"count": 5, "burst": burst} for burst in (0, 1.5, True, "3", 10**12)),
        {"count": 5, "algorithm": "leaky"},
        {"count": 5, "algorithm": 3},
        {"count": 5, "burst": 3, "algorithm": "window"},
    ],
)
def test_impossible_rates_are_refused(options: dict[str, Any]) -> None:
    *_, (field, value) = options.items()
    if "burst" in options:
        field, value = "burst", options["burst"]
    with pytest.raises(ConfigError, match=re.escape(f"Rate({field}={value!r})")) as refused:
        Rate(**options)
    assert isinstance(refused.value, ValueError)


async def test_an_unknown_resource_keeps_a_node_from_starting(app: App) -> None:
    @app.task(resource="smpt")
    async def send() -> None: ...

    app.limit("smtp", concurrency=1)
    with pytest.raises(ConfigError, match=r"resource = 'smpt' of .*: is not declared.*smtp"):
        async with app.node():
            pass
    with pytest.raises(ConfigError, match="is not declared"):
        await send.enqueue()


@pytest.mark.parametrize(
    "key, words",
    [
        (lambda number: 1 / 0, "concurrency_key of work, .*lambda.*, raised ZeroDivisionError"),
        (lambda number: "x" * 256, "256 characters, the limit is 255"),
        (lambda number: None, "returned None: must be a text or a whole number"),
        (lambda number: "", "returned ''"),
        (lambda number: "a\nb", "unprintable"),
    ],
)
async def test_bad_keys_store_nothing(app: App, key: object, words: str) -> None:
    @app.task(name="work", concurrency=1, concurrency_key=key)  # type: ignore[call-overload, untyped-decorator]
    async def work(number: int) -> None: ...

    with pytest.raises(InvalidJob, match=words):
        await work.enqueue(1)
    assert await app.jobs.list() == []
