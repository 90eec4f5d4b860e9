"""If these fail, jobs behind gates wait although there are slots for them."""

import asyncio
import random
from collections import Counter
from contextlib import AsyncExitStack
from datetime import timedelta
from itertools import count
from typing import Any

import pytest

from detent import App, Priority, Rate
from detent._engine.look import LONGEST_REST
from detent.spi.limits import GatedAnswer, GatedRequest
from detent.testing.simulation.stage import Stage
from detent.testing.virtual import VirtualRuntime, in_virtual_time

LANES = 1_200
LATENCY = 0.02
SECOND = timedelta(seconds=1)


async def enqueue_between(heavy: Any, light: Any, before: int, behind: int) -> None:
    """Enqueue a job between others, which are numbered."""
    for number in range(before):
        await light.enqueue(number)
    await asyncio.sleep(0.1)
    await heavy.enqueue()
    await asyncio.sleep(0.1)
    for number in range(behind):
        await light.enqueue(number)


@in_virtual_time
async def test_a_node_that_starts_finds_all_lanes_without_a_rest() -> None:
    stage = Stage()

    @stage.app.task(concurrency=1, concurrency_key=lambda key: key)
    async def work(key: int) -> None: ...

    await stage.app.enqueue_many([work.bind(key) for key in range(LANES)])
    stage.line.latency = LATENCY
    async with stage.node(queues={"default": LANES}):
        began = stage.now
        ended = await stage.until(lambda: len(stage.tables.outcome) == LANES)
    # Two seconds of claims, 64 lanes each; a rest after each page of lanes would be two more.
    assert ended - began < 3.0


@in_virtual_time
async def test_a_look_that_was_held_up_does_not_hide_lanes_for_long() -> None:
    stage, release = Stage(wakeups=False), asyncio.Event()

    @stage.app.task(concurrency=1, concurrency_key=lambda key: key)
    async def work(key: int) -> None:
        if key == 0:
            await release.wait()

    await stage.app.enqueue_many([work.bind(0), work.bind(0)])
    async with stage.node():
        await stage.until(lambda: len(stage.tables.running) == 1)
        held = stage.line.hold("gated_lanes")
        await asyncio.sleep(10)
        held.set()
        await asyncio.sleep(0.1)
        await work.enqueue(1)
        began = stage.now
        ended = await stage.until(lambda: len(stage.tables.outcome) == 1)
        assert ended - began < LONGEST_REST + 1.0
        release.set()


@in_virtual_time
@pytest.mark.parametrize("limit", ["queue:default", "memory"])
@pytest.mark.parametrize("another_later", [True, False])
async def test_what_nobody_tells_of_is_found(limit: str, another_later: bool) -> None:
    stage = Stage(wakeups=False)
    stage.app.limit(limit, concurrency=4)

    @stage.app.task(resource=None if limit.startswith("queue:") else limit)
    async def work() -> None: ...

    async with stage.node():
        await work.enqueue()
        await stage.until(lambda: len(stage.tables.outcome) == 1)
        if another_later:
            await work.options(delay=timedelta(hours=1)).enqueue()
        # It has seen that nothing is there by now, or nothing but what is due later.
        await asyncio.sleep(20)
        await work.enqueue()
        began = stage.now
        # Whether there is anything to look for comes with the heartbeat.
        assert await stage.until(lambda: len(stage.tables.outcome) == 2) - began < 6.0


@in_virtual_time
async def test_a_limited_queue_is_looked_at_when_wakeups_were_lost() -> None:
    stage = Stage()
    stage.app.limit("queue:default", concurrency=4)

    @stage.app.task
    async def work() -> None: ...

    mute = App(store=stage.store, runtime=VirtualRuntime("mute"))
    untold = mute.task(name=work.name)(work.function)
    async with stage.node():
        await work.enqueue()
        await stage.until(lambda: len(stage.tables.outcome) == 1)
        await asyncio.sleep(1)
        await untold.enqueue()
        began = stage.now
        assert await stage.until(lambda: len(stage.tables.outcome) == 2) - began < 6.0


@in_virtual_time
@pytest.mark.parametrize("nodes", [1, 3])
@pytest.mark.parametrize("wakeups", [True, False])
async def test_a_heavy_job_is_not_overtaken_for_ever(nodes: int, wakeups: bool) -> None:
    stage, started = Stage(wakeups=wakeups), list[str]()
    stage.app.limit("memory", concurrency=4)

    @stage.app.task(resource="memory")
    async def light(number: int) -> None:
        started.append("light")
        await asyncio.sleep(1 + number % 3 / 10)

    @stage.app.task(resource="memory", weight=4)
    async def heavy() -> None:
        started.append("heavy")

    await enqueue_between(heavy, light, 10, 50)
    async with AsyncExitStack() as stack:
        for _ in range(nodes):
            await stack.enter_async_context(stage.node())
        await stage.until(lambda: len(stage.tables.outcome) == 61)
    assert started.index("heavy") <= 14


@in_virtual_time
@pytest.mark.parametrize("lights, heavies", [("one", "other"), ("other", "one")])
async def test_a_heavy_job_is_not_overtaken_by_another_queue(lights: str, heavies: str) -> None:
    stage, started = Stage(), list[str]()
    stage.app.limit("memory", concurrency=4)

    @stage.app.task(resource="memory", queue=lights)
    async def light(number: int) -> None:
        started.append("light")
        await asyncio.sleep(1 + number % 3 / 10)

    @stage.app.task(resource="memory", queue=heavies, weight=4)
    async def heavy() -> None:
        started.append("heavy")

    await enqueue_between(heavy, light, 10, 50)
    async with stage.node(queues={"one": 10, "other": 10}):
        await stage.until(lambda: len(stage.tables.outcome) == 61)
    assert started.index("heavy") <= 14


@in_virtual_time
@pytest.mark.parametrize("every", [0.005, 0.4])
@pytest.mark.parametrize("others_later", [True, False])
async def test_a_heavy_job_has_its_turn_while_others_keep_coming(
    every: float, others_later: bool
) -> None:
    stage, begun = Stage(), asyncio.Event()
    stage.app.limit("memory", concurrency=4)

    @stage.app.task(resource="memory")
    async def light(number: int) -> None:
        await asyncio.sleep(1 + number % 3 / 10)

    @stage.app.task(resource="memory", weight=4)
    async def heavy() -> None:
        begun.set()

    async def keep_coming() -> None:
        async with asyncio.TaskGroup() as enqueues:
            for number in count():
                enqueues.create_task(light.enqueue(number))
                await asyncio.sleep(every)
                if begun.is_set():
                    return

    if others_later:
        await light.options(delay=timedelta(hours=1)).enqueue(0)
    # Longer than from one job to the next: something always comes while a claim is on its way.
    stage.line.latency = LATENCY
    async with stage.node(), asyncio.TaskGroup() as group:
        group.create_task(keep_coming())
        await asyncio.sleep(0.1)
        # Of the others 20 stand before it at most, four of which run at once.
        await heavy.enqueue()
        async with asyncio.timeout(10):
            await begun.wait()


@in_virtual_time
async def test_a_heavy_job_has_its_turn_at_a_rate() -> None:
    stage, started = Stage(), list[str]()
    stage.app.limit("api", rate=Rate(10, SECOND, burst=5))

    @stage.app.task(resource="api")
    async def light(number: int) -> None:
        started.append("light")

    @stage.app.task(resource="api", weight=5)
    async def heavy() -> None:
        started.append("heavy")

    await enqueue_between(heavy, light, 10, 100)
    async with stage.node():
        await stage.until(lambda: len(stage.tables.outcome) == 111)
    assert started.index("heavy") <= 20


@in_virtual_time
async def test_what_can_never_run_keeps_nobody_waiting() -> None:
    stage = Stage()
    stage.app.limit("memory", concurrency=4)

    @stage.app.task(resource="memory")
    async def light() -> None: ...

    @stage.app.task(resource="memory", weight=4)
    async def heavy() -> None: ...

    await heavy.enqueue()
    await asyncio.sleep(0.1)
    await light.enqueue()
    await stage.app.limits.set("memory", concurrency=2)
    async with stage.node():
        began = stage.now
        assert await stage.until(lambda: len(stage.tables.outcome) == 1) - began < 1.0
        await stage.app.limits.set("memory", concurrency=4)
        began = stage.now
        assert await stage.until(lambda: len(stage.tables.outcome) == 2) - began < 1.0


@in_virtual_time
async def test_who_is_more_urgent_does_not_wait_behind_a_heavy_job() -> None:
    stage, release = Stage(), asyncio.Event()
    stage.app.limit("memory", concurrency=4)

    @stage.app.task(resource="memory")
    async def light(wait: bool) -> None:
        if wait:
            await release.wait()

    @stage.app.task(resource="memory", weight=4)
    async def heavy() -> None: ...

    await light.enqueue(True)
    async with stage.node():
        await stage.until(lambda: len(stage.tables.running) == 1)
        await heavy.enqueue()
        await asyncio.sleep(0.1)
        later = await light.enqueue(False)
        await asyncio.sleep(10)
        assert stage.tables.outcome == {}, "it stands behind the heavy one"
        urgent, began = await light.options(priority=Priority.CRITICAL).enqueue(False), stage.now
        assert await stage.until(lambda: urgent.id in stage.tables.outcome) - began < 1.0
        assert later.id not in stage.tables.outcome
        release.set()
        await stage.until(lambda: len(stage.tables.outcome) == 4)


@in_virtual_time
@pytest.mark.parametrize("seed", range(12))
async def test_light_and_heavy_jobs_all_have_their_turn(seed: int) -> None:
    dice = random.Random(seed)
    stage, used, most = Stage(wakeups=dice.random() < 0.7), Counter[str](), Counter[str]()
    stage.app.limit("memory", concurrency=5)
    stage.app.limit("api", concurrency=4, rate=Rate(20, SECOND, burst=6))
    tasks = []
    for resource, weights in {"memory": (1, 2, 5), "api": (1, 3, 4)}.items():
        for weight in weights:

            async def work(seconds: float, resource: str = resource, weight: int = weight) -> None:
                used[resource] += weight
                most[resource] = max(most[resource], used[resource])
                await asyncio.sleep(seconds)
                used[resource] -= weight

            named = stage.app.task(name=f"{resource}-{weight}", resource=resource, weight=weight)
            tasks.append((named(work), weight))
    seconds, jobs = 0.0, 0
    async with AsyncExitStack() as stack:
        for _ in range(dice.choice([1, 3])):
            await stack.enter_async_context(stage.node(queues={"default": dice.choice([2, 20])}))
        for _ in range(60):
            task, weight = dice.choice(tasks)
            lasts = dice.choice([0.0, 0.1, 1.0])
            seconds, jobs = seconds + weight * lasts, jobs + 1
            await task.options(priority=Priority(dice.choice([1, 2, 2, 2, 4]))).enqueue(lasts)
            await asyncio.sleep(dice.choice([0.0, 0.0, 0.05]))
        began = stage.now
        ended = await stage.until(lambda: len(stage.tables.outcome) == jobs)
    assert most["memory"] <= 5
    assert most["api"] <= 4
    # A third of what the resources have, and a look for hints that were lost.
    assert ended - began < seconds / 3 + 5


@in_virtual_time
async def test_a_lane_is_not_asked_for_more_than_one_claim_takes(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    stage, asked = Stage(), list[tuple[int, int]]()
    stage.app.limit("memory", concurrency=1_000)
    claim = stage.store.claim_gated

    async def overheard(request: GatedRequest) -> GatedAnswer:
        asked.extend((scan.room, request.limit) for scan in request.scans)
        return await claim(request)

    @stage.app.task(resource="memory")
    async def work() -> None: ...

    await stage.app.enqueue_many([work.bind() for _ in range(100)])
    monkeypatch.setattr(stage.store, "claim_gated", overheard)
    async with stage.node(queues={"default": 500}, claim_batch=20):
        await stage.until(lambda: len(stage.tables.outcome) == 100)
    assert max(asked) == (20, 20)


@in_virtual_time
@pytest.mark.parametrize("together", [True, False])
async def test_no_queue_waits_until_another_is_empty(together: bool) -> None:
    stage, started = Stage(), list[str]()
    works = []
    for queue in ("one", "other"):
        stage.app.limit(queue, concurrency=1_000)

        async def work(queue: str = queue) -> None:
            started.append(queue)

        works.append(stage.app.task(name=queue, resource=queue, queue=queue)(work))
    for some in [works] * 40 if together else [[work] * 2 for work in works for _ in range(20)]:
        await stage.app.enqueue_many([work.bind() for work in some for _ in range(10)])
        await asyncio.sleep(0.01)
    stage.line.latency = LATENCY
    # Each claim takes less than the first queue alone has room for.
    async with stage.node(queues={"one": 100, "other": 100}, claim_batch=20):
        await stage.until(lambda: len(started) == 800)
    assert started.index("other") <= 40
    assert Counter(started[:400])["other"] >= 150


@in_virtual_time
async def test_what_became_free_at_once_is_used_at_once() -> None:
    stage, release, permits = Stage(), asyncio.Event(), 400
    stage.app.limit("smtp", concurrency=permits)

    @stage.app.task(resource="smtp")
    async def first() -> None:
        await release.wait()

    @stage.app.task(resource="smtp", concurrency=1, concurrency_key=lambda key: key)
    async def then(key: int) -> None:
        await asyncio.sleep(60)

    await stage.app.enqueue_many([first.bind() for _ in range(permits)])
    async with stage.node(queues={"default": 2 * permits}):
        await stage.until(lambda: len(stage.tables.running) == permits)
        await stage.app.enqueue_many([then.bind(key) for key in range(permits)])
        await asyncio.sleep(1)
        release.set()
        await stage.until(lambda: len(stage.tables.outcome) == permits)
        began = stage.now
        # One claim asks 64 lanes, and each of them gives one.
        assert await stage.until(lambda: len(stage.tables.running) == permits) - began < 0.5


@in_virtual_time
@pytest.mark.parametrize("wakeups", [True, False])
@pytest.mark.parametrize("keyed", [True, False])
async def test_what_need_not_wait_is_known_beside_too_many_that_wait(
    monkeypatch: pytest.MonkeyPatch, wakeups: bool, keyed: bool
) -> None:
    monkeypatch.setattr("detent._engine.lanes.MOST", 50)
    stage, release, done = Stage(wakeups=wakeups), asyncio.Event(), list[str]()
    stage.app.limit("slow", concurrency=1_000 if keyed else 1)
    stage.app.limit("quick", concurrency=1)

    @stage.app.task(resource="slow", concurrency=1, concurrency_key=lambda key: key)
    async def slow(key: int) -> None:
        await release.wait()
        done.append("slow")

    @stage.app.task(resource="quick")
    async def quick() -> None:
        done.append("quick")

    await stage.app.enqueue_many([slow.bind(key) for key in range(100) for _ in range(2)])
    async with stage.node(queues={"default": 500}):
        await asyncio.sleep(30)
        await quick.enqueue()
        began = stage.now
        assert await stage.until(lambda: "quick" in done) - began < 12.0
        release.set()
        await stage.until(lambda: done.count("slow") == 200)
