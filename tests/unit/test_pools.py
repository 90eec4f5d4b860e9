"""If these fail, a task runs elsewhere than its declaration says, or a mistake is found late."""

import asyncio
import subprocess
import sys
import threading
from collections.abc import AsyncIterator, Callable
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from detent import App, ConfigError, Retry
from detent.config import Config, NodeConfig, PoolConfig
from detent.config.pools import make_pool
from detent.events import ExecutorTrouble, HookFailed, JobStarted, JobTimedOut
from detent.spi.executor import Call, Encoded
from detent.spi.runtime import Runtime
from detent.stores.memory import MemoryNotifier, MemoryStore
from tests.unit import process_tasks
from tests.unit.halted_clock import HaltedClock
from tests.unit.process_node import until
from tests.unit.process_tasks import PATIENCE

REPORTS = {"reports": PoolConfig(size=1), "io": PoolConfig(kind="thread", size=2)}


def make_app(
    pools: dict[str, PoolConfig] | None = None, runtime: Runtime | None = None, **node: Any
) -> App:
    config = Config(node=NodeConfig(drain_timeout=timedelta(0), **node), pools=pools or {})
    return App(config=config, store=MemoryStore(), notifier=MemoryNotifier(), runtime=runtime)


@pytest.fixture
async def app() -> AsyncIterator[App]:
    app = make_app(REPORTS)
    yield app
    await app.close()


def thread_name() -> str:
    return threading.current_thread().name


async def where() -> str:
    return "on the loop"


# ---------------------------------------------------------------- named pools


async def test_a_pool_of_the_configuration_is_chosen_by_its_name(app: App) -> None:
    in_child = app.task(name="pid", executor="reports")(process_tasks.pid)
    on_thread = app.task(executor="io")(thread_name)
    by_default = app.task(name="default")(thread_name)
    async with app.node():
        assert await (await in_child.enqueue()).result(timeout=PATIENCE)
        assert "detent-job-io" in await (await on_thread.enqueue()).result(timeout=PATIENCE)
        assert "-io" not in await (await by_default.enqueue()).result(timeout=PATIENCE)


async def test_a_pool_may_be_declared_in_code_and_after_its_tasks() -> None:
    app = make_app()
    task = app.task(executor="late")(thread_name)
    app.pool("late", kind="thread", size=1)
    async with app.node():
        assert "detent-job-late" in await (await task.enqueue()).result(timeout=PATIENCE)
    await app.close()


def test_code_counts_more_than_the_configuration_and_that_more_than_nothing() -> None:
    app = make_app({"reports": PoolConfig(size=7, max_jobs=5)})
    app.pool("reports", size=2, max_memory="1GB", idle="5s")
    pool = app._pools._pool("reports", app.config)
    assert pool == PoolConfig(
        size=2, max_jobs=5, max_memory=1 << 30, idle=timedelta(seconds=5), kind="process"
    )


def test_the_pools_that_are_always_there_take_settings_too() -> None:
    pool = make_pool("thread", {})
    assert pool.kind == "thread"
    with pytest.raises(ConfigError, match=r"\[pools.thread\] kind = 'process'"):
        make_pool("thread", {"kind": "process"})
    app = make_app({"process": PoolConfig(max_jobs=3)}, processes=4)
    assert app._pools._pool("process", app.config) == PoolConfig(max_jobs=3)


async def test_pools_do_not_take_each_others_workers() -> None:
    app = make_app()
    app.pool("one", kind="thread", size=1)
    app.pool("two", kind="thread", size=1)
    gate, busy = threading.Event(), threading.Event()

    def block() -> bool:
        busy.set()
        return gate.wait(PATIENCE)

    blocking = app.task(executor="one")(block)
    other = app.task(executor="two")(thread_name)
    async with app.node():
        job = await blocking.enqueue()
        await asyncio.to_thread(busy.wait, PATIENCE)
        assert "two" in await (await other.enqueue()).result(timeout=PATIENCE)
        gate.set()
        assert await job.result(timeout=PATIENCE) is True
    await app.close()


async def test_waiting_for_a_thread_does_not_count_as_running() -> None:
    clock = HaltedClock()
    app = make_app(runtime=clock, threads=1)
    gate, busy = threading.Event(), threading.Event()
    started: list[JobStarted] = []
    timed_out: list[JobTimedOut] = []
    app.on(JobStarted, started.append)
    app.on(JobTimedOut, timed_out.append)

    def block() -> None:
        busy.set()
        gate.wait(PATIENCE)

    blocking = app.task(block)
    # A task that needs no thread: the node claims more than it has threads.
    app.task(name="on_the_loop")(where)
    quick = app.task(timeout=5, retry=Retry(max_attempts=1))(thread_name)
    async with app.node():
        first = await blocking.enqueue()
        await asyncio.to_thread(busy.wait, PATIENCE)
        second = await quick.enqueue()
        await until(lambda: len(started) == 2)
        clock.go_on(5)
        gate.set()
        await first.result(timeout=PATIENCE)
        assert "detent-job" in await second.result(timeout=PATIENCE)
    assert timed_out == []
    await app.close()


# ---------------------------------------------------------------- mistakes


@pytest.mark.parametrize(
    "declare,message",
    [
        (lambda app: app.task(executor="thread")(where), "'thread': does not fit .*async def"),
        (lambda app: app.task(executor="io")(where), "'io': does not fit .*where.*async def"),
        (lambda app: app.task(executor="async")(thread_name), "'async': does not fit .*def"),
        (lambda app: app.task(executor="a b")(thread_name), "executor 'a b': must be"),
        (lambda app: app.task(executor="reports", name="x")(lambda: None), "inside a function"),
        (lambda app: app.pool("async"), "the event loop itself"),
        (lambda app: app.pool("a b"), "the pool 'a b'"),
        (lambda app: app.pool("x", size=0), r"\[pools.x\] size = 0: must be a whole number"),
        (lambda app: app.pool("x", kind="fiber"), r"\[pools.x\] kind = 'fiber': must be"),
        (lambda app: app.pool("x", max_memory="lots"), r"\[pools.x\] max_memory = 'lots'"),
        (lambda app: app.pool("x", kind="thread", max_jobs=3), "threads cannot be replaced"),
        (lambda app: app.pool("x", sze=3), r"\[pools.x\] sze: unknown key; the keys are kind, "),
        (lambda app: (app.pool("x"), app.pool("x")), "two executors are named 'x'"),
        (lambda app: app.executor("reports", Recorder()), "'reports': a pool has that name"),
        (lambda app: app.executor("thread", Recorder()), "'thread': a pool has that name"),
        (lambda app: app.executor("x", 3), "'x': 3 has no run"),
    ],
)
async def test_a_mistake_is_told_where_it_is_made(
    app: App, declare: Callable[[App], Any], message: str
) -> None:
    with pytest.raises(ConfigError, match=message):
        declare(app)


async def test_an_unknown_executor_is_told_before_the_node_starts(app: App) -> None:
    app.task(executor="report", name="crunch")(thread_name)
    with pytest.raises(
        ConfigError,
        match=r"task crunch: executor = 'report': must be one of async, thread, process, "
        r"reports, io; did you mean 'reports'\?",
    ):
        await app.node().start()


async def test_what_a_late_pool_cannot_run_is_told_before_the_node_starts(app: App) -> None:
    app.task(executor="late", name="local")(lambda: None)
    app.pool("late", kind="process")
    with pytest.raises(ConfigError, match=r"task local: a child process could not import it"):
        await app.node().start()


async def test_a_task_that_came_after_the_start_with_an_unknown_executor_waits(app: App) -> None:
    told: list[ExecutorTrouble] = []
    app.on(ExecutorTrouble, told.append)
    async with app.node():
        task = app.task(executor="unknown")(thread_name)
        job = await task.enqueue()
        while not told:  # noqa: ASYNC110  the node
            await asyncio.sleep(0)
        assert told[0].error == "this node has no executor of that name"
    assert (await job.info()).attempt == 1


# ---------------------------------------------------------------- other people's


class Recorder:
    """An executor that answers for the functions instead of calling them."""

    def __init__(self) -> None:
        self.calls: list[Call] = []
        self.closed = 0

    async def run(self, call: Call) -> Any:
        self.calls.append(call)
        call.job.write_log("info", "recorded")
        return Encoded(b'["recorded",' + call.payload + b"]")

    async def close(self) -> None:
        self.closed += 1


def far_away(number: int) -> Any:
    raise AssertionError(number)


async def test_an_executor_of_ones_own_gets_all_that_is_needed_elsewhere(app: App) -> None:
    recorder = Recorder()
    app.executor("far", recorder)
    task = app.task(executor="far", name="far_away")(far_away)
    async with app.node():
        job = await task.enqueue(7)
        assert await job.result(timeout=PATIENCE) == ["recorded", {"number": 7}]
    (call,) = recorder.calls
    assert call.function is far_away
    assert call.kwargs == {"number": 7}
    assert (call.task, call.payload, call.codec) == ("far_away", b'{"number":7}', "json")
    assert call.modules == (__name__,)
    assert call.job.job_id == job.id
    assert recorder.closed == 1
    assert [line.message for line in await app.jobs.log(job.id)] == ["recorded"]


async def test_an_executor_that_cannot_be_closed_does_not_keep_the_node(app: App) -> None:
    class Stubborn(Recorder):
        async def close(self) -> None:
            raise RuntimeError("no")

    told: list[HookFailed] = []
    app.on(HookFailed, told.append)
    app.executor("far", Stubborn)
    async with app.node():
        pass
    assert [(event.name, event.error) for event in told] == [("far.close()", "RuntimeError: no")]


async def test_a_class_makes_a_new_executor_for_each_node(app: App) -> None:
    made: list[Recorder] = []

    def make() -> Recorder:
        made.append(Recorder())
        return made[-1]

    app.executor("far", make)
    task = app.task(executor="far", name="far_away")(far_away)
    for _ in range(2):
        async with app.node():
            await (await task.enqueue(1)).result(timeout=PATIENCE)
    assert [(len(each.calls), each.closed) for each in made] == [(1, 1), (1, 1)]
    app.executor("another", Recorder)


# ---------------------------------------------------------------- where tasks come from

SCRIPT = """
import asyncio, os, sys
from detent import App
from detent.stores.memory import MemoryNotifier, MemoryStore
from helper import double

print("imported", file=sys.stderr)
app = App(store=MemoryStore(), notifier=MemoryNotifier())
@app.task(executor="process")
def work(number: int) -> list:
    return [number + 1, __name__, sys.argv[1:], os.getpid()]

borrowed = app.task(executor="process", name="borrowed")(double)

async def main() -> None:
    async with app.node():
        *told, pid = await (await work.enqueue(1)).result(timeout=20)
        assert pid != os.getpid()
        print(work.name, told, await (await borrowed.enqueue(4)).result(20))
    await app.close()

if __name__ == "__main__":
    asyncio.run(main())
"""


def run_script(folder: Path, *arguments: str) -> str:
    (folder / "helper.py").write_text("def double(number: int) -> int:\n    return 2 * number\n")
    (folder / "package").mkdir()
    (folder / "package" / "__init__.py").touch()
    for path in (folder / "script.py", folder / "package" / "inside.py"):
        path.write_text(SCRIPT)
    environ = {"PYTHONPATH": str(folder), "PATH": "/usr/bin:/bin"}
    ran = subprocess.run(
        [sys.executable, *arguments],
        cwd=folder,
        env=environ,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert ran.returncode == 0, ran.stderr
    assert ran.stderr == "imported\nimported\n", "once here, once in the child"
    return ran.stdout.strip()


@pytest.mark.parametrize(
    "arguments, module",
    [(["script.py", "x"], "script"), (["-m", "package.inside", "x"], "package.inside")],
)
def test_tasks_of_the_script_itself_run_in_children(
    arguments: list[str], module: str, tmp_path: Path
) -> None:
    """And so does a function of another module, which never heard of the app."""
    said = run_script(tmp_path, *arguments)
    assert said == f"{module}.work [2, '__mp_main__', ['x']] 8"


def test_a_task_of_an_interactive_session_is_refused() -> None:
    code = (
        "from detent import App\n"
        "app = App('memory://')\n"
        "def work() -> None: ...\n"
        "app.task(executor='process')(work)\n"
    )
    for arguments, text in ((["-c", code], None), ([], code)):
        ran = subprocess.run(
            [sys.executable, *arguments],
            input=text,
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )
        assert ran.returncode == 1
        assert "could not import it: it is defined in an interactive session" in ran.stderr
