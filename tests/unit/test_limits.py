"""Limits from the declaration to the slot: never too many, never stuck, refused when impossible."""

import asyncio
from collections import Counter
from datetime import timedelta

import pytest

from detent import App, ConfigError, InvalidJob, JobContext, Rate, RetryAfter
from detent.model.gates import gates_of
from detent.model.limits import Limit
from detent.stores.memory import MemoryNotifier, MemoryStore


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
    started: list[float] = []

    @app.task(rate=Rate(100, burst=5))
    async def call(number: int) -> None:
        started.append(asyncio.get_running_loop().time())

    jobs = await app.enqueue_many([call.bind(number) for number in range(25)])
    async with app.node(concurrency=50):
        for job in jobs:
            await job.result(timeout=10)
    lasted = started[-1] - started[0]
    assert lasted >= 0.18, "5 at once, then one each 10 ms"


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
    with pytest.raises(ValueError, match="count=0"):
        Rate(0)


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
