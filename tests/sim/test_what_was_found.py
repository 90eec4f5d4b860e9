"""If these fail, a bug is back that the simulation had found; each is told alone."""

import asyncio
from collections.abc import Awaitable, Callable
from datetime import timedelta

import pytest

from detent._engine.node import Node
from detent.app import App
from detent.context import JobContext
from detent.errors import JobCanceled, LockTaken
from detent.events import NodeDied, NodeFenced
from detent.testing import virtual
from detent.testing.simulation.process import Process, gate
from detent.testing.simulation.stage import Stage
from detent.testing.virtual import in_virtual_time, running_loop


def with_processes(test: Callable[[], Awaitable[None]]) -> None:
    """Run a test in virtual time, where processes can be killed and stopped."""

    async def main() -> None:
        running_loop().gate = gate
        await test()

    virtual.run(main())


class Host:
    """A process with a node in it."""

    def __init__(self, stage: Stage, app: App, name: str) -> None:
        self.process = Process(name, "found")
        self.node = Node(app.node_parts(app.config))

    async def start(self) -> None:
        assert await self.process.run(self.node.start(), "start")

    async def drain(self) -> None:
        assert await self.process.run(self.node.drain(), "drain")


@in_virtual_time
async def test_a_late_answer_does_not_undo_what_the_heartbeat_heard_since() -> None:
    """A loop was blocked while it asked for news: the thread had gone on beating."""
    stage = Stage()
    async with stage.node() as node:
        await stage.until(lambda: stage.line.count("beat") >= 2)
        let_go = stage.line.hold("beat", reply=True)
        asking = asyncio.create_task(node._membership.ask(60))
        await asyncio.sleep(14)
        assert stage.line.count("beat") >= 5, "the heart goes on beating"
        let_go.set()
        await asking
        assert node._membership.trouble() is None
        await asyncio.sleep(30)
        assert stage.told(NodeFenced) == []


@in_virtual_time
async def test_who_watches_over_the_lease_does_not_wait_for_the_store() -> None:
    """An operator's hint came just before the line was cut."""
    stage = Stage()
    async with stage.node() as node:
        await stage.until(lambda: stage.line.count("beat") >= 2)
        cut = stage.now
        let_go = stage.line.hold("beat")
        node._called.set()
        await stage.until(lambda: stage.line.count("beat") >= 3)
        stage.line.lose("beat", times=None)
        await stage.until(lambda: stage.told(NodeFenced))
        assert stage.now - cut < 11, "two thirds of fifteen seconds"
        let_go.set()
        stage.line.heal()


@pytest.mark.parametrize("number", range(8))
def test_a_stopped_process_begins_nothing_that_it_may_have_lost(number: int) -> None:
    """It was stopped after it had claimed a job, and before it could begin it."""

    async def test() -> None:
        stage, ran = Stage(), list[str]()
        apps = [stage.app, stage.new_app()]
        for app in apps:

            @app.task(name="job")
            async def job(ctx: JobContext) -> None:
                ran.append(str(ctx.node_id))

        sleepy, other = Host(stage, apps[0], f"sleepy {number}"), Host(stage, apps[1], "other")
        await sleepy.start()
        let_go = stage.line.hold("claim_jobs", reply=True)
        enqueued = await stage.app.tasks.get("job").enqueue()
        await stage.until(lambda: stage.tables.running)
        sleepy.process.pause()
        await other.start()
        await enqueued.result(timeout=60)
        let_go.set()
        await asyncio.sleep(5)
        sleepy.process.resume()
        await asyncio.sleep(5)
        assert ran == [str(other.node.identity.incarnation)]
        await sleepy.drain()
        await other.drain()

    with_processes(test)


@pytest.mark.parametrize("apart", [0.7, 1.5, 2.5, 3.5, 4.5])
def test_the_second_of_two_deaths_is_found_as_soon_as_the_first(apart: float) -> None:
    """The heartbeat told only of the lease that would end first."""

    async def test() -> None:
        stage = Stage()
        found: dict[str, float] = {}

        def note(event: NodeDied) -> None:
            found.setdefault(str(event.node), stage.now)

        apps = [stage.app, stage.new_app(), stage.new_app()]
        for app in apps:
            app.on(NodeDied, note)
        hosts = [Host(stage, app, f"host {number}") for number, app in enumerate(apps)]
        await hosts[0].start()
        await hosts[1].start()
        await asyncio.sleep(apart)
        await hosts[2].start()
        await asyncio.sleep(21)
        hosts[1].process.kill()
        hosts[2].process.kill()
        ends = {
            str(host.node.identity.incarnation): (
                stage.tables.nodes[host.node.identity.incarnation].lease_until - virtual.START
            ).total_seconds()
            for host in hosts[1:]
        }
        await asyncio.sleep(30)
        assert found.keys() == ends.keys()
        assert max(found[node] - ends[node] for node in ends) < 2
        await hosts[0].drain()
        for host in hosts[1:]:
            host.process.release()

    with_processes(test)


@in_virtual_time
async def test_a_drain_does_not_leave_a_name_behind_that_nobody_bears() -> None:
    """A node that had lost its lease was asked to drain while it was about to join again."""
    stage = Stage()
    async with stage.node(drain_timeout=timedelta(0)) as node:
        stage.line.lose(None, times=None)
        await stage.until(lambda: stage.told(NodeFenced))
        draining = asyncio.create_task(node.drain())
        await asyncio.sleep(0)
        stage.line.heal()
        stage.line.latency = 0.01
        await draining
    assert list(stage.tables.nodes) == []


@in_virtual_time
async def test_a_lock_whose_answer_came_too_late_is_not_believed_in() -> None:
    """A loop was blocked while it waited for a lock, for longer than the lock lasts."""
    stage = Stage()
    other = stage.new_app()
    let_go = stage.line.hold("acquire_lock", reply=True)
    late = asyncio.create_task(stage.app.lock("import", ttl=3, wait=1).acquire())
    await asyncio.sleep(4)
    async with other.lock("import", ttl=60):
        let_go.set()
        with pytest.raises(LockTaken):
            await late
    async with stage.app.lock("import", ttl=3) as lock:
        assert lock.is_held


@in_virtual_time
async def test_a_job_canceled_before_its_first_step_gives_back_its_slot() -> None:
    """A loop was blocked after it had started a job; the cancel was the first thing it heard."""
    stage, ran = Stage(), list[int]()

    @stage.app.task
    async def job(number: int) -> None:
        ran.append(number)

    async with stage.node(queues={"default": 1}) as node:
        dispatcher = node._crew.dispatcher
        # The node may have it before the caller knows that it is enqueued.
        enqueued = asyncio.create_task(job.enqueue(1))
        while not dispatcher.held:  # noqa: ASYNC110  before the first step, and no later
            await asyncio.sleep(0)
        (attempt,) = dispatcher.held.values()
        assert (attempt.task is not None, attempt.begun) == (True, False)
        dispatcher.cancel(attempt.claim.id, attempt.claim.fence, "no longer wanted")
        with pytest.raises(JobCanceled):
            await (await enqueued).result(timeout=10)
        await (await job.enqueue(2)).result(timeout=10)
    assert ran == [2]
