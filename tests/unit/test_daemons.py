"""If these fail, a daemon runs twice in the cluster, or nowhere."""

import asyncio
import threading
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import replace
from datetime import timedelta
from itertools import pairwise
from typing import Any

import pytest

from detent._engine.node import Node
from detent.app import App
from detent.config import ClusterConfig, Config
from detent.daemons import DaemonContext
from detent.errors import ConfigError, TermLost, WrongThread
from detent.events import (
    DaemonEnded,
    DaemonSaid,
    DaemonStarted,
    DaemonStopped,
    DaemonStuck,
)
from detent.stores.memory import MemoryNotifier, MemoryStore
from detent.testing.simulation.stage import Stage
from detent.testing.virtual import in_virtual_time


class Diary:
    """What daemons did, wherever they ran."""

    def __init__(self, stage: Stage) -> None:
        self.stage = stage
        self.running: list[DaemonContext] = []
        self.begun: list[DaemonContext] = []

    def declare(self, app: App, **options: Any) -> None:
        """Declare a daemon that runs until it is told to stop."""

        @app.daemon(name="feed", **options)
        async def feed(ctx: DaemonContext) -> None:
            self.begun.append(ctx)
            self.running.append(ctx)
            try:
                await ctx.stopping()
            finally:
                self.running.remove(ctx)

    async def until_running(self) -> DaemonContext:
        await self.stage.until(lambda: self.running)
        return self.running[0]


@asynccontextmanager
async def started(stage: Stage, app: App, **settings: Any) -> AsyncIterator[Node]:
    config = replace(app.config, node=replace(app.config.node, **settings))
    node = Node(app.node_parts(config))
    await node.start()
    try:
        yield node
    finally:
        await node.drain()


@in_virtual_time
async def test_one_instance_runs_in_the_cluster_and_moves_with_its_node() -> None:
    stage = Stage()
    diary = Diary(stage)
    first, second = stage.app, stage.new_app()
    for app in (first, second):
        diary.declare(app)
    async with started(stage, first, name="web-1") as one:
        ctx = await diary.until_running()
        assert (ctx.name, ctx.term, ctx.node_name) == ("feed", 1, "web-1")
        assert ctx.node_id == one.identity.incarnation
        async with started(stage, second, name="web-2"):
            await asyncio.sleep(60)
            assert diary.running == [ctx]
            drained = stage.now
            await one.drain()
            await stage.until(lambda: diary.running)
            assert stage.now - drained <= 0.5, "told, the other node need not wait"
            assert [each.term for each in diary.begun] == [1, 2]
    assert diary.running == []
    assert [event.reason for event in stage.told(DaemonStopped)] == ["the node drains"] * 2


@in_virtual_time
async def test_where_a_daemon_runs_is_seen_by_all() -> None:
    stage = Stage()
    Diary(stage).declare(stage.app)
    other = stage.new_app()

    @other.daemon(name="mail")
    async def mail() -> None: ...

    async with started(stage, stage.app, name="web-1") as node:
        await stage.until(lambda: stage.tables.daemons)
        feed, mail_ = await other.daemons.list()
        assert (feed.name, feed.state, feed.node_name, feed.term) == ("feed", "running", "web-1", 1)
        assert (feed.node, feed.restarts) == (node.identity.incarnation, 0)
        assert (mail_.name, mail_.state, mail_.node) == ("mail", "waiting", None)
    assert [daemon.state for daemon in await other.daemons.list()] == ["stopped", "waiting"]


@in_virtual_time
async def test_a_daemon_that_fails_is_started_again_later_and_later() -> None:
    stage = Stage()
    begun: list[float] = []

    @stage.app.daemon(name="feed", restart_delay=1, max_restart_delay="1m")
    async def feed(ctx: DaemonContext) -> None:
        begun.append(stage.now)
        raise OSError("no feed today")

    async with stage.node():
        await stage.until(lambda: len(begun) >= 10, 600)
        (found,) = await stage.app.daemons.list()
        assert found.last_error == "OSError: no feed today"
        assert found.failed_at is not None
        assert found.restarts >= 8
    pauses = [after - before for before, after in pairwise(begun)]
    for number, pause in enumerate(pauses):
        most = min(2.0**number, 60.0)
        assert most / 2 <= pause <= most + 0.01
    assert stage.told(DaemonEnded)[0].error == "OSError: no feed today"


@in_virtual_time
async def test_a_daemon_that_ran_for_a_while_is_forgiven() -> None:
    stage = Stage()
    begun: list[float] = []
    ended: list[float] = []

    @stage.app.daemon(restart_delay=1, max_restart_delay=20)
    async def feed() -> None:
        begun.append(stage.now)
        await asyncio.sleep(30 if len(begun) > 6 else 0)
        ended.append(stage.now)
        raise OSError

    async with stage.node():
        await stage.until(lambda: len(begun) >= 9, 600)
    assert begun[6] - ended[5] >= 10
    assert begun[8] - ended[7] <= 1.01


@in_virtual_time
async def test_a_daemon_that_ends_at_once_leaves_time_for_others() -> None:
    stage = Stage()
    begun: list[float] = []

    @stage.app.daemon(restart_delay=0, max_restart_delay=0)
    async def feed() -> None:
        begun.append(stage.now)

    async with stage.node():
        await stage.until(lambda: len(begun) >= 5)
    assert all(after - before > 0.09 for before, after in pairwise(begun))


@in_virtual_time
async def test_a_daemon_that_returns_is_started_again_too() -> None:
    stage = Stage()
    begun: list[int] = []

    @stage.app.daemon
    async def feed(ctx: DaemonContext) -> None:
        begun.append(ctx.term)

    async with stage.node():
        await stage.until(lambda: len(begun) >= 3)
        (found,) = await stage.app.daemons.list()
        assert found.last_error is None
    assert set(begun) == {1}, "under the same term"
    assert stage.told(DaemonEnded)[0].error is None


@in_virtual_time
@pytest.mark.parametrize("error", [SystemExit(3), KeyboardInterrupt(), asyncio.CancelledError()])
async def test_nothing_that_a_daemon_raises_ends_the_node(error: BaseException) -> None:
    stage = Stage()
    begun: list[int] = []

    @stage.app.daemon
    async def feed() -> None:
        begun.append(1)
        raise error

    async with stage.node():
        await stage.until(lambda: len(begun) >= 3)
    assert type(error).__name__ in str(stage.told(DaemonEnded)[0].error)


# Losing the term


@in_virtual_time
async def test_a_daemon_that_lost_its_term_is_stopped_and_writes_nothing_more() -> None:
    stage = Stage()
    diary = Diary(stage)
    diary.declare(stage.app)

    @stage.app.task
    async def work() -> None: ...

    async with stage.node():
        ctx = await diary.until_running()
        async with stage.store.begin() as connection:
            await ctx.fenced(connection)
            await work.options(within=connection).enqueue()
        before = len(stage.tables.job)
        assert before == 1
        # Another is elected by force, and the first does not know it.
        row = stage.tables.leaders["daemon:feed"]
        stage.tables.leaders["daemon:feed"] = row._replace(
            term=2, node=stage.runtime.new_id(), name="web-9"
        )
        assert not ctx.should_stop
        with pytest.raises(TermLost, match="term 1 of 'daemon:feed' is over"):  # noqa: PT012  all of it
            async with stage.store.begin() as connection:
                await ctx.fenced(connection)
                await work.options(within=connection).enqueue()
        assert len(stage.tables.job) == before
        await stage.until(lambda: not diary.running)
        assert stage.now <= 6
        assert ctx.should_stop
    assert [event.reason for event in stage.told(DaemonStopped)] == ["web-9 leads now"]


@in_virtual_time
async def test_a_daemon_in_doubt_is_stopped_and_begins_anew_under_a_new_term() -> None:
    stage = Stage()
    diary = Diary(stage)
    diary.declare(stage.app)
    async with stage.node():
        ctx = await diary.until_running()
        stage.line.lose("elect", times=None)
        await stage.until(lambda: not diary.running)
        assert stage.now <= 10.3
        assert ctx.should_stop
        with pytest.raises(TermLost):
            async with stage.store.begin() as connection:
                await ctx.fenced(connection)
        stage.line.heal()
        assert (await diary.until_running()).term == 2


@in_virtual_time
async def test_a_fenced_node_stops_its_daemons_at_once() -> None:
    stage = Stage()
    diary = Diary(stage)
    diary.declare(stage.app)
    async with stage.node() as node:
        ctx = await diary.until_running()
        await stage.store.declare_dead([node.identity.incarnation], "a test")
        await stage.until(lambda: ctx not in diary.running)
        again = await diary.until_running()
        assert again.term == 2
        assert again.node_id != ctx.node_id


@in_virtual_time
async def test_the_daemon_of_a_dead_node_runs_elsewhere() -> None:
    stage = Stage()
    diary = Diary(stage)
    other = stage.new_app()
    for app in (stage.app, other):
        diary.declare(app)
    dying = Node(other.node_parts(other.config))
    await dying.start()
    await diary.until_running()
    async with stage.node():
        await asyncio.sleep(3)
        mine = dying.identity.incarnation
        stage.line.lose(times=None, matching=lambda call: mine in _named(call.args))
        killed = stage.now
        await dying._membership.stop()
        for task in dying._tasks.values():
            task.cancel()
        await stage.until(lambda: stage.tables.daemons["feed"].term == 2)
        assert stage.now - killed <= 15 + 5 + 0.5
    dying._crew.abandon()


def _named(args: tuple[Any, ...]) -> list[Any]:
    """Who a call is made for: the node itself, a candidate or the holder of a term."""
    first = args[0] if args else None
    return [first, getattr(first, "id", None), getattr(first, "holder", None)]


@in_virtual_time
async def test_reports_wait_out_a_trouble_of_the_store() -> None:
    stage = Stage()
    Diary(stage).declare(stage.app)
    stage.line.lose("save_daemon", times=3)
    async with stage.node():
        await stage.until(lambda: stage.tables.daemons)
        assert stage.tables.daemons["feed"].state == "running"


# Drain


@in_virtual_time
async def test_a_daemon_that_is_told_to_stop_has_its_grace() -> None:
    stage = Stage()
    tidied: list[float] = []

    @stage.app.daemon(name="feed", grace=20)
    async def feed(ctx: DaemonContext) -> None:
        await ctx.stopping()
        assert ctx.should_stop
        await asyncio.sleep(15)
        tidied.append(stage.now)

    async with stage.node() as node:
        await stage.until(lambda: stage.told(DaemonStarted))
        began = stage.now
        draining = asyncio.create_task(node.drain())
        await stage.until(lambda: stage.tables.daemons["feed"].state == "stopping")
        assert stage.tables.leaders["daemon:feed"].node == node.identity.incarnation, (
            "its term lasts as long as it does"
        )
        await draining
        assert tidied == [pytest.approx(began + 15, abs=0.5)]
    assert stage.tables.daemons["feed"].state == "stopped"
    assert stage.tables.leaders["daemon:feed"].node is None


@in_virtual_time
async def test_after_its_grace_it_is_canceled() -> None:
    stage = Stage()
    canceled: list[float] = []

    @stage.app.daemon(grace=3)
    async def feed() -> None:
        try:
            await asyncio.sleep(3600)
        except asyncio.CancelledError:
            canceled.append(stage.now)
            raise

    async with stage.node() as node:
        await stage.until(lambda: stage.told(DaemonStarted))
        began = stage.now
        await node.drain()
        assert canceled == [pytest.approx(began + 3, abs=0.1)]
        assert stage.now - began < 4


@in_virtual_time
async def test_a_second_request_to_stop_leaves_no_grace() -> None:
    stage = Stage()

    @stage.app.daemon(grace=3600)
    async def feed() -> None:
        await asyncio.sleep(3600)

    async with stage.node() as node:
        await stage.until(lambda: stage.told(DaemonStarted))
        node.stop()
        stopped = asyncio.create_task(node.wait_stopped())
        await asyncio.sleep(2)
        node.stop()
        await stopped
        assert stage.now < 4


@in_virtual_time
async def test_one_that_will_not_stop_is_left_behind_and_keeps_its_role() -> None:
    stage = Stage()

    @stage.app.daemon(name="feed", grace=1)
    async def feed() -> None:
        until = stage.now + 60
        while stage.now < until:
            try:
                await asyncio.sleep(until - stage.now)
            except asyncio.CancelledError:
                continue

    async with stage.node() as node:
        await stage.until(lambda: stage.told(DaemonStarted))
        await node.drain()
        assert stage.now < 10
        row = stage.tables.leaders["daemon:feed"]
        assert row.node == node.identity.incarnation, "others wait for the end of the lease"
    assert len(stage.told(DaemonStuck)) == 1
    assert stage.told(DaemonStopped) == []


@in_virtual_time
async def test_one_that_waits_to_be_started_again_is_not_waited_for() -> None:
    stage = Stage()

    @stage.app.daemon(restart_delay="1h", max_restart_delay="1h")
    async def feed() -> None:
        raise OSError

    async with stage.node() as node:
        await stage.until(lambda: stage.told(DaemonEnded))
        began = stage.now
        await node.drain()
        assert stage.now - began < 1


# Where it runs


@in_virtual_time
async def test_a_daemon_runs_where_role_and_capabilities_fit() -> None:
    stage = Stage()
    diary = Diary(stage)
    apps = [stage.new_app() for _ in range(3)]
    for app in apps:
        diary.declare(app, role="gateway", needs=["gpu"])
    async with (
        started(stage, apps[0], name="a", roles=("worker", "scheduler"), capabilities=("gpu",)),
        started(stage, apps[1], name="b"),
    ):
        await asyncio.sleep(30)
        assert diary.begun == []
        async with started(stage, apps[2], name="c", capabilities=("disk", "gpu")):
            assert (await diary.until_running()).node_name == "c"


@in_virtual_time
async def test_what_a_daemon_writes_to_its_log_is_told() -> None:
    stage = Stage()

    @stage.app.daemon(name="feed")
    async def feed(ctx: DaemonContext) -> None:
        ctx.log.info("connected")
        ctx.log.warning("slow")
        await ctx.stopping()

    async with stage.node():
        await stage.until(lambda: stage.told(DaemonSaid))
    said = [(event.daemon, event.severity, event.message) for event in stage.told(DaemonSaid)]
    assert said == [("feed", "info", "connected"), ("feed", "warning", "slow")]


# Declaring


async def right(ctx: DaemonContext) -> None: ...
def takes_two(ctx: DaemonContext, more: int) -> None: ...
def takes_a_keyword(*, ctx: DaemonContext) -> None: ...
async def yields() -> AsyncIterator[int]:
    yield 1


@pytest.mark.parametrize(
    "function, options, said",
    [
        (takes_two, {}, r"must take one argument, the context, or none"),
        (takes_a_keyword, {}, r"must take one argument, the context, or none"),
        (yields, {}, r"must not have yield in it"),
        (3, {}, r"is no function"),
        (right, {"name": "a\n"}, r"must be 1 to 255 printable characters"),
        (right, {"role": "schedular"}, r"role = 'schedular': .*did you mean 'scheduler'\?"),
        (right, {"needs": "a b"}, r"^needs 'a b'"),
        (right, {"grace": "soon"}, r"grace = 'soon': must be a duration"),
        (right, {"grace": -1}, r"grace = -1: must be"),
        (right, {"restart_delay": "2d"}, r"restart_delay = '2d': must be 0 to 24 hours"),
        (right, {"restart_delay": 9, "max_restart_delay": 3}, r"max_restart_delay = 3: must not"),
    ],
)
def test_what_cannot_be_a_daemon_is_refused(
    function: Callable[..., Any], options: dict[str, Any], said: str
) -> None:
    app = App(config=Config(), store=MemoryStore())
    with pytest.raises(ConfigError, match=said) as refused:
        app.daemon(**options)(function) if options else app.daemon(function)
    assert "\n" not in str(refused.value)


def test_two_daemons_cannot_have_one_name() -> None:
    app = App(config=Config(), store=MemoryStore())
    app.daemon(name="feed")(right)
    app.daemon(name="feed")(right)
    with pytest.raises(ConfigError, match="two daemons are named 'feed'"):
        app.daemon(name="feed")(lambda ctx: None)


async def test_a_declared_function_is_still_the_function() -> None:
    app = App(config=Config(), store=MemoryStore())
    assert app.daemon(right) is right
    assert app.daemon(name="zebra")(right) is right
    (mine, other) = await app.daemons.list()
    assert mine.name.endswith("test_daemons.right")
    assert other.name == "zebra"


# On threads, in real time

QUICK = Config(cluster=ClusterConfig(leader_check=timedelta(milliseconds=300)))
PATIENCE = 10.0


async def until(holds: Callable[[], object]) -> None:
    async with asyncio.timeout(PATIENCE):
        while not holds():  # noqa: ASYNC110  a thread tells nobody
            await asyncio.sleep(0.005)


def real_app() -> App:
    return App(config=QUICK, store=MemoryStore(), notifier=MemoryNotifier())


async def test_a_blocking_daemon_runs_on_a_thread_and_is_told_to_stop() -> None:
    app = real_app()
    seen: list[Any] = []

    @app.task
    def work() -> None: ...

    @app.daemon
    def feed(ctx: DaemonContext) -> None:
        seen.append((threading.current_thread().name, ctx.term))
        work.enqueue_sync()
        while not ctx.wait(3600):
            pass
        seen.append(ctx.should_stop)

    async with app.node(roles=("scheduler",)):
        await until(lambda: seen)
        (name, term) = seen[0]
        assert name.startswith("detent-daemon-")
        assert term == 1
    assert seen[1:] == [True]
    assert len(await app.jobs.list()) == 1


async def test_a_thread_learns_that_its_term_is_lost_and_is_not_doubled_here() -> None:
    app = real_app()
    store = app.store
    assert isinstance(store, MemoryStore)
    begun: list[int] = []
    go_on = threading.Event()
    told: list[bool] = []

    @app.daemon(name="feed")
    def feed(ctx: DaemonContext) -> None:
        begun.append(ctx.term)
        told.append(ctx.wait(PATIENCE))
        assert go_on.wait(PATIENCE)

    async with app.node():
        await until(lambda: begun)
        row = store._tables.leaders["daemon:feed"]
        store._tables.leaders["daemon:feed"] = row._replace(term=2, node=None)
        await until(lambda: told)
        # The role is free, and the thread still there: the node must not begin a second one.
        await asyncio.sleep(0.9)
        assert begun == [1]
        assert store._tables.leaders["daemon:feed"].node is None
        go_on.set()
        await until(lambda: len(begun) == 2)
    assert told[0] is True
    assert begun[0] == 1 < begun[1]


@pytest.mark.parametrize("error", [StopIteration("enough"), SystemExit(1), OSError("gone")])
async def test_whatever_a_thread_raises_it_is_started_again(error: BaseException) -> None:
    app = real_app()
    begun: list[int] = []
    ended: list[DaemonEnded] = []
    app.on(DaemonEnded, ended.append)

    @app.daemon(restart_delay=0.01)
    def feed() -> None:
        begun.append(1)
        raise error

    async with app.node():
        await until(lambda: len(begun) >= 3)
    assert type(error).__name__ in str(ended[0].error)


@in_virtual_time
async def test_waiting_like_a_thread_on_the_event_loop_is_refused() -> None:
    stage = Stage()

    @stage.app.daemon
    async def feed(ctx: DaemonContext) -> None:
        ctx.wait(1)

    async with stage.node():
        await stage.until(lambda: stage.told(DaemonEnded))
    assert WrongThread.__name__ in str(stage.told(DaemonEnded)[0].error)
