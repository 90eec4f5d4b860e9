"""If these fail, the jobs of a dead node wait for somebody who never comes."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from datetime import timedelta
from itertools import pairwise
from typing import Any, cast

import pytest

from detent._engine.maintenance.rescue import Rescuer
from detent._engine.node import Node
from detent.app import App
from detent.config import ClusterConfig, Config
from detent.context import JobContext
from detent.errors import ConfigError, JobFailed, NodeNotFound
from detent.events import Bus, ClaimOrphaned, JobRescued, NodeDied
from detent.model.state import State
from detent.spi.nodes import NodeInfo
from detent.spi.rescue import Rescue
from detent.stores.memory import MemoryStore
from detent.testing.conformance.builders import claim_request, lane_scan
from detent.testing.simulation.stage import Stage
from detent.testing.virtual import VirtualRuntime, in_virtual_time


class Doomed:
    """A node whose process can be killed: its heart stops and nothing of it is written."""

    def __init__(self, stage: Stage, app: App) -> None:
        self._stage = stage
        self.node = Node(app.node_parts(app.config))

    async def kill(self) -> None:
        # From here on nothing of it reaches the store.
        mine = self.node.identity.incarnation
        self._stage.line.lose(times=None, matching=lambda call: mine in call.args[:1])
        self.node._crew.abandon()
        await self.node._membership.stop()
        for task in self.node._tasks.values():
            task.cancel()


@asynccontextmanager
async def doomed(stage: Stage, app: App | None = None) -> AsyncIterator[Doomed]:
    other = Doomed(stage, app or stage.new_app())
    await other.node.start()
    yield other


def sleeper(app: App) -> None:
    @app.task(name="sleeper")
    async def sleeper(ctx: JobContext, seconds: float) -> str:
        await asyncio.sleep(seconds)
        return str(ctx.node_id)


@in_virtual_time
async def test_the_jobs_of_a_dead_node_run_elsewhere_soon_after_its_lease() -> None:
    stage = Stage()
    other = stage.new_app()
    for app in (stage.app, other):
        sleeper(app)
    async with doomed(stage, other) as dying:
        task = stage.app.tasks.get("sleeper")
        jobs = [await task.enqueue(30.0) for _ in range(5)]
        await stage.until(lambda: len(stage.tables.running) == 5)
        async with stage.node():
            await asyncio.sleep(7)
            await dying.kill()
            killed = stage.now
            await stage.until(lambda: stage.told(NodeDied))
            assert stage.now - killed <= 15 + 2
            for job in jobs:
                await job.result(timeout=60)
    assert [event.state for event in stage.told(JobRescued)] == ["pending"] * 5
    assert {event.node for event in stage.told(NodeDied)} == {dying.node.identity.incarnation}


@in_virtual_time
async def test_a_store_that_is_away_for_longer_than_a_lease_makes_no_crashes() -> None:
    stage = Stage()
    others = [stage.new_app() for _ in range(2)]
    for app in (stage.app, *others):
        sleeper(app)
    async with stage.node(), stage.node(others[0]), stage.node(others[1]):
        task = stage.app.tasks.get("sleeper")
        jobs = [await task.enqueue(70.0) for _ in range(24)]
        for away in (16.0, 20.0, 27.0):
            await stage.until(lambda: len(stage.tables.running) == 24, 60)
            await asyncio.sleep(20)
            stage.line.lose(None, times=None)
            await asyncio.sleep(away)
            stage.line.heal()
            # The worst order: they look for the dead before they give anything back.
            stage.line.lose("claims_of", times=None)
            await asyncio.sleep(5)
            stage.line.heal()
        for job in jobs:
            await job.result(timeout=300)
    assert stage.told(NodeDied) == []
    assert stage.told(JobRescued) == []
    assert stage.tables.attempts == {}


@in_virtual_time
async def test_a_node_that_died_while_the_store_was_away_is_found_one_lease_later() -> None:
    stage = Stage()
    other = stage.new_app()
    for app in (stage.app, other):
        sleeper(app)
    async with doomed(stage, other) as dying:
        jobs = [await stage.app.tasks.get("sleeper").enqueue(30.0) for _ in range(5)]
        await stage.until(lambda: len(stage.tables.running) == 5)
        async with stage.node():
            await asyncio.sleep(20)
            stage.line.lose(None, times=None)
            await dying.kill()
            await asyncio.sleep(40)
            stage.line.heal()
            mine = dying.node.identity.incarnation
            stage.line.lose(times=None, matching=lambda call: mine in call.args[:1])
            back = stage.now
            await stage.until(lambda: stage.told(NodeDied))
            # The node that lives was fenced: it came back within a tenth of its lease.
            assert 15 <= stage.now - back <= 15 + 1.5 + 2
            for job in jobs:
                await job.result(timeout=60)
    assert [event.crashes for event in stage.told(JobRescued)] == [1] * 5


@in_virtual_time
async def test_while_all_are_well_nobody_looks_for_the_dead_more_than_every_half_minute() -> None:
    stage = Stage()
    async with stage.node(), stage.node(stage.new_app()):
        await asyncio.sleep(60)
        before = stage.line.count("rescue")
        await asyncio.sleep(600)
        looks = stage.line.count("rescue") - before
    assert 2 * 600 / 30 <= looks <= 2 * 600 / 24 + 2
    assert stage.told(NodeDied) == []


@in_virtual_time
async def test_a_job_that_kills_its_process_fails_and_its_neighbours_do_not() -> None:
    stage = Stage()
    killed: list[Doomed] = []
    current: list[Doomed] = []

    def declare(app: App) -> None:
        sleeper(app)

        @app.task(name="poison")
        async def poison() -> None:
            killed.append(current[0])
            await current[0].kill()
            await asyncio.sleep(3600)

    declare(stage.app)
    task = stage.app.tasks.get("sleeper")
    poisoned = await stage.app.tasks.get("poison").enqueue()
    jobs = [await task.enqueue(40.0) for _ in range(20)]
    while poisoned.id not in stage.tables.outcome:
        app = stage.new_app()
        declare(app)
        deaths = len(killed)
        async with doomed(stage, app) as dying:
            current[:] = [dying]
            await stage.until(lambda deaths=deaths: len(killed) > deaths, 120)  # type: ignore[misc]
        await stage.store.declare_dead([dying.node.identity.incarnation], "killed")
        await stage.store.rescue(100, 3)
    with pytest.raises(JobFailed, match="only suspect"):
        await poisoned.result(timeout=1)
    async with stage.node():
        for job in jobs:
            await job.result(timeout=3600)
    # Twice at full width; then 21 and 8 suspects were together; then it was alone.
    attempts = await stage.app.jobs.attempts(poisoned.id)
    assert [attempt.alone for attempt in attempts] == [False] * 4 + [True] * 3
    assert {attempt.kind for attempt in attempts} == {"crashed"}


@in_virtual_time
async def test_a_suspect_that_crashed_often_enough_runs_beside_no_other() -> None:
    stage = Stage()
    running: list[int] = []
    most: list[int] = []

    @stage.app.task
    async def work(number: int) -> None:
        running.append(number)
        most.append(len(running))
        await asyncio.sleep(1)
        running.remove(number)

    jobs = [await work.enqueue(number) for number in range(5)]
    for job_id, place in stage.tables.ready.items():
        stage.tables.ready[job_id] = place._replace(crashes=5, lane=f"{place.lane}+!")
    async with stage.node():
        for job in jobs:
            await job.result(timeout=60)
        assert stage.now < 15, "the next follows when one has ended, not at the next poll"
    assert max(most) == 1


@in_virtual_time
async def test_two_kills_cost_innocent_jobs_no_more_than_their_work() -> None:
    stage = Stage()
    current: list[Doomed] = []

    def declare(app: App) -> None:
        @app.task(name="work")
        async def work() -> None:
            await asyncio.sleep(4)

    declare(stage.app)
    jobs = [await stage.app.tasks.get("work").enqueue() for _ in range(30)]
    for _ in range(2):
        app = stage.new_app()
        declare(app)
        async with doomed(stage, app) as dying:
            await stage.until(lambda: len(stage.tables.running) == 30, 60)
            current[:] = [dying]
            await dying.kill()
        await stage.store.declare_dead([dying.node.identity.incarnation], "killed")
        await stage.store.rescue(100, 3)
    assert all(place.crashes == 2 for place in stage.tables.ready.values())
    async with stage.node(concurrency=100):
        began = stage.now
        for job in jobs:
            await job.result(timeout=60)
        assert stage.now - began < 6


@in_virtual_time
async def test_suspects_of_different_standing_do_not_share_a_node_beyond_what_each_may() -> None:
    stage = Stage()
    running: dict[int, None] = {}
    most: dict[int, int] = {}

    @stage.app.task
    async def work(crashes: int, number: int) -> None:
        running[number] = None
        for other in running:
            standing = other // 100
            most[standing] = max(most.get(standing, 0), len(running))
        await asyncio.sleep(1)
        del running[number]

    standings = {}
    jobs = []
    for number in range(60):
        crashes = 2 + number % 3
        job = await work.enqueue(crashes, crashes * 100 + number)
        standings[job.id] = crashes
        jobs.append(job)
    for job_id, place in stage.tables.ready.items():
        stage.tables.ready[job_id] = place._replace(
            crashes=standings[job_id], lane=f"{place.lane}+!"
        )
    async with stage.node(concurrency=100):
        for job in jobs:
            await job.result(timeout=120)
    assert most[4] == 1
    assert most[3] <= 8
    assert 1 < most[2] <= 64


@in_virtual_time
async def test_predecessors_whose_process_is_known_to_be_gone_are_not_waited_for() -> None:
    stage = Stage()
    old = stage.new_app()
    for app in (stage.app, old):
        sleeper(app)
    async with doomed(stage, old) as dying:
        job = await stage.app.tasks.get("sleeper").enqueue(5.0)
        await stage.until(lambda: stage.tables.running)
        await dying.kill()
        killed = stage.now

        def is_gone(node: NodeInfo) -> bool:
            return node.incarnation == dying.node.identity.incarnation

        successor = Node(replace(stage.app.node_parts(stage.app.config), is_gone=is_gone))
        await successor.start()
        await job.result(timeout=30)
        assert stage.now - killed < 6
        await successor.drain()


@in_virtual_time
async def test_a_drain_that_an_operator_asked_for_is_heard_with_the_heartbeat() -> None:
    stage = Stage()
    sleeper(stage.app)
    async with stage.node() as node:
        job = await stage.app.tasks.get("sleeper").enqueue(20.0)
        await stage.until(lambda: stage.tables.running)
        await stage.store.drain(node.identity.incarnation)
        await asyncio.wait_for(node.wait_stopped(), 40)
        assert await job.result(timeout=1) is not None
        assert stage.tables.nodes == {}


@in_virtual_time
async def test_a_cancel_that_the_dead_node_never_heard_of_is_carried_out() -> None:
    stage = Stage()
    other = stage.new_app()
    for app in (stage.app, other):
        sleeper(app)
    async with doomed(stage, other) as dying:
        job = await stage.app.tasks.get("sleeper").enqueue(60.0)
        await stage.until(lambda: stage.tables.running)
        await dying.kill()
        await job.cancel(reason="enough")
        async with stage.node():
            await stage.until(lambda: job.id in stage.tables.outcome, 30)
    assert stage.tables.outcome[job.id].state is State.CANCELED
    assert stage.tables.outcome[job.id].reason == "enough"


@in_virtual_time
async def test_the_long_dead_are_taken_off_the_list() -> None:
    stage = Stage(Config(cluster=ClusterConfig(forget_after=timedelta(minutes=10))))
    async with doomed(stage) as dying:
        await dying.kill()
        async with stage.node() as node:
            await stage.until(lambda: stage.told(NodeDied))
            assert len(stage.tables.nodes) == 2
            await asyncio.sleep(11 * 60)
            assert list(stage.tables.nodes) == [node.identity.incarnation]


@in_virtual_time
async def test_a_queue_is_scaled_on_all_nodes_within_a_second() -> None:
    stage = Stage()
    running: list[str] = []

    def declare(app: App) -> None:
        @app.task(name="long")
        async def long(ctx: JobContext) -> None:
            running.append(str(ctx.node_id))
            await asyncio.sleep(30)

    other = stage.new_app()
    for app in (stage.app, other):
        declare(app)
    async with stage.node(concurrency=2), stage.node(other, concurrency=2):
        await stage.app.enqueue_many([stage.app.tasks.get("long").bind() for _ in range(40)])
        await stage.until(lambda: len(running) == 4)
        await stage.app.queues.scale("default", 5)
        asked = stage.now
        await stage.until(lambda: len(running) == 10)
        assert stage.now - asked < 1
        (queue,) = await stage.app.queues.list()
        assert (queue.name, queue.slots) == ("default", 5)
        await stage.app.queues.scale("default", None)
        await asyncio.sleep(31)
        assert len(running) == 14, "two each again"
        with pytest.raises(ConfigError, match="slots = 0"):
            await stage.app.queues.scale("default", 0)
        for wrong in ("5", 1.5, True):
            with pytest.raises(ConfigError, match=f"slots = {wrong!r}"):
                await stage.app.queues.scale("default", cast("Any", wrong))
        await stage.app.queues.pause("default")


@in_virtual_time
async def test_only_a_worker_claims() -> None:
    stage = Stage()

    @stage.app.task
    async def add(one: int, two: int) -> int:
        return one + two

    async with stage.node(roles=("scheduler",)):
        job = await add.enqueue(1, 2)
        await asyncio.sleep(60)
        assert (await job.info()).state is State.PENDING
        (node,) = await stage.app.nodes.list()
        assert (list(node.roles), dict(node.queues)) == (["scheduler"], {})
        async with stage.node(stage.app):
            assert await job.result(timeout=30) == 3


@in_virtual_time
async def test_a_node_is_drained_by_name_at_once() -> None:
    stage = Stage()
    async with stage.node(name="blue") as node:
        asked = stage.now
        found = await stage.app.nodes.drain("blue")
        assert (found.incarnation, found.state) == (node.identity.incarnation, "draining")
        await asyncio.wait_for(node.wait_stopped(), 10)
        assert stage.now - asked < 1
        with pytest.raises(NodeNotFound, match="'green'"):
            await stage.app.nodes.drain("green")


@in_virtual_time
async def test_nobody_has_to_leave_because_another_has_his_name() -> None:
    """A lost machine and the one that took its place: to forget the wrong one would cost jobs."""
    stage = Stage()
    other = stage.new_app()
    async with doomed(stage, other) as lost, stage.node() as living:
        name = living.identity.name
        for change in (stage.app.nodes.drain, stage.app.nodes.forget):
            with pytest.raises(ConfigError, match=f"'{name}': 2 nodes have that name") as told:
                await change(name)
            assert str(lost.node.identity.incarnation) in str(told.value)
        await lost.kill()
        found = await stage.app.nodes.forget(lost.node.identity.incarnation)
        assert found.incarnation == lost.node.identity.incarnation
        found = await stage.app.nodes.drain(name)
        assert found.incarnation == living.identity.incarnation


@in_virtual_time
async def test_a_forgotten_node_loses_its_jobs_to_others() -> None:
    stage = Stage()
    other = stage.new_app()
    for app in (stage.app, other):
        sleeper(app)
    async with doomed(stage, other) as dying:
        job = await stage.app.tasks.get("sleeper").enqueue(5.0)
        await stage.until(lambda: stage.tables.running)
        await dying.kill()
        killed = stage.now
        async with stage.node():
            await asyncio.sleep(1)
            await stage.app.nodes.forget(dying.node.identity.incarnation)
            await job.result(timeout=60)
            assert stage.now - killed < 10
            for wrong in ("soon", True, timedelta(seconds=-1)):
                with pytest.raises(ConfigError, match="inactive_for"):
                    await stage.app.nodes.list(inactive_for=cast("Any", wrong))
            silent = await stage.app.nodes.list(inactive_for=timedelta(seconds=5))
            assert [node.incarnation for node in silent] == [dying.node.identity.incarnation]


@in_virtual_time
async def test_a_claim_that_comes_while_its_node_is_fenced_need_not_wait_for_the_sweep() -> None:
    stage = Stage()
    sleeper(stage.app)
    async with stage.node() as node:
        await stage.until(lambda: stage.line.count("rescue") >= 1)
        old = node.identity.incarnation
        stage.line.lose("beat", times=None)
        held = stage.line.hold("declare_dead")
        await stage.until(lambda: stage.line.count("declare_dead") == 1)
        # It was on its way all the time, and the node is still listed as active.
        job = await stage.app.tasks.get("sleeper").options(queue="late").enqueue(0.0)
        claims = await stage.store.claim_jobs(claim_request(old, lane_scan("late")))
        assert [claim.id for claim in claims] == [job.id]
        stage.line.heal()
        held.set()
        fenced = stage.now
        await stage.until(lambda: stage.told(JobRescued))
        assert stage.now - fenced < 2
        assert stage.tables.attempts == {}, "no process crashed"


@in_virtual_time
async def test_a_claim_whose_job_was_deleted_by_hand_is_removed_and_told() -> None:
    stage = Stage()
    sleeper(stage.app)
    async with stage.node() as node:
        job = await stage.app.tasks.get("sleeper").enqueue(3_600.0)
        await stage.until(lambda: stage.tables.running)
        del stage.tables.job[job.id]
        deleted = stage.now
        await stage.until(lambda: stage.told(ClaimOrphaned))
        (told,) = stage.told(ClaimOrphaned)
        assert (told.job_id, told.queue, told.node) == (
            job.id,
            "default",
            node.identity.incarnation,
        )
        assert stage.now - deleted < 60
        assert not stage.tables.running


class Looked(MemoryStore):
    """A store that takes its time to look everywhere, and notes who wanted that when."""

    def __init__(self, runtime: VirtualRuntime, took: float) -> None:
        super().__init__(runtime.utcnow)
        self.looks: list[tuple[float, bool]] = []
        self._runtime = runtime
        self._took = took

    async def rescue(self, limit: int, max_crashes: int, *, everywhere: bool = False) -> Rescue:
        self.looks.append((self._runtime.monotonic(), everywhere))
        if everywhere:
            await self._runtime.sleep(self._took)
        return await super().rescue(limit, max_crashes, everywhere=everywhere)


async def looks_of(*, leads: bool, took: float) -> list[tuple[float, bool]]:
    """Let a rescuer sweep every ten seconds for some minutes; return when it looked, and where."""
    runtime = VirtualRuntime()
    store = Looked(runtime, took)
    rescuer = Rescuer(
        runtime,
        Bus(),
        store,
        max_crashes=3,
        sweep_interval=timedelta(seconds=10),
        forget_after=timedelta(hours=1),
        leads=lambda: leads,
    )
    until = runtime.monotonic() + 600
    while runtime.monotonic() < until:
        await runtime.sleep(await rescuer.run_once())
    return store.looks


@in_virtual_time
async def test_only_the_leader_looks_everywhere_and_rests_for_as_long_as_that_costs() -> None:
    others = await looks_of(leads=False, took=0.0)
    assert len(others) >= 60
    assert not any(everywhere for _, everywhere in others)
    quick = await looks_of(leads=True, took=0.01)
    assert sum(everywhere for _, everywhere in quick) >= 60
    slow = await looks_of(leads=True, took=1.0)
    moments = [at for at, everywhere in slow if everywhere]
    assert all(later - at >= 100 for at, later in pairwise(moments)), "1 % of the time"
    assert len(moments) >= 3
    assert len(slow) >= 60, "nodes that were declared dead are looked for as often as ever"
