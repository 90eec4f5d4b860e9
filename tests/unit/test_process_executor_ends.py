"""If these fail, a job cannot be stopped, a dead child takes others with it, or one is left over.

The children are real, and so is their death. Nothing here sleeps: everything waits for a sign.
"""

import asyncio
import importlib
import os
import signal
import subprocess
import sys
import time
from datetime import timedelta
from pathlib import Path

import pytest
import uvloop

from detent import JobCanceled, JobFailed, Retry, State
from detent._engine.attempt import Attempt, Stop
from detent.errors import ProcessDied
from detent.events import ExecutorTrouble, JobStarted
from detent.executors import children as children_module
from detent.executors import worker as worker_module
from detent.executors.worker import Worker
from tests.unit.halted_clock import HaltedClock
from tests.unit.process_node import gone, is_alive, station, until, written
from tests.unit.process_tasks import PATIENCE

NO_TIME = timedelta(milliseconds=50)


def open_files() -> int:
    return len(list(Path("/proc/self/fd").iterdir()))


# ---------------------------------------------------------------- told to stop


@pytest.mark.parametrize("name", ["hang", "hold_the_gil"])
async def test_a_timeout_kills_the_child_and_the_slot_is_free_again(
    name: str, tmp_path: Path
) -> None:
    clock = HaltedClock()
    async with station(runtime=clock) as node:
        await node.result("pid")
        job = await node.enqueue(name, str(tmp_path / "started"), timeout=5)
        (pid,) = await written(tmp_path / "started")
        clock.go_on(5)
        with pytest.raises(JobFailed, match=r"longer than 5\.0 s"):
            await job.result(timeout=PATIENCE)
        assert not is_alive(pid), "gone before its end was written"
        assert await node.result("pid") != pid


async def test_the_time_that_a_job_waits_for_its_child_is_not_its_own(tmp_path: Path) -> None:
    clock, started = HaltedClock(), list[JobStarted]()
    async with station(runtime=clock) as node:
        node.app.on(JobStarted, started.append)
        # Both before there is a child, and while another job has it for longer than the timeout.
        first = await node.enqueue("run_until", str(tmp_path / "a"), str(tmp_path / "go"))
        second = await node.enqueue("pid", timeout=5)
        await until(lambda: len(started) == 2)
        clock.go_on(5)
        await written(tmp_path / "a")
        clock.go_on(5)
        (tmp_path / "go").touch()
        pid = await first.result(timeout=PATIENCE)
        assert await second.result(timeout=PATIENCE) == pid
        assert (await second.info()).duration == timedelta(0)


async def test_a_cancel_lets_a_job_end_by_itself_and_the_child_live(tmp_path: Path) -> None:
    async with station(kill_grace=timedelta(seconds=PATIENCE)) as node:
        job = await node.enqueue("listen", str(tmp_path / "started"))
        (pid,) = await written(tmp_path / "started")
        await job.cancel("enough")
        with pytest.raises(JobCanceled, match="enough"):
            await job.result(timeout=PATIENCE)
        assert (await job.info()).state is State.CANCELED
        assert await node.result("pid") == pid


async def test_a_cancel_reaches_an_async_function_as_on_the_node(tmp_path: Path) -> None:
    async with station(kill_grace=timedelta(seconds=PATIENCE)) as node:
        job = await node.enqueue("wait_async", str(tmp_path / "started"), str(tmp_path / "clean"))
        (pid,) = await written(tmp_path / "started")
        await job.cancel()
        with pytest.raises(JobCanceled):
            await job.result(timeout=PATIENCE)
        assert (tmp_path / "clean").exists(), "its finally was run"
        assert await node.result("pid") == pid


async def test_a_job_that_does_not_listen_to_its_cancel_is_killed(tmp_path: Path) -> None:
    async with station(kill_grace=NO_TIME) as node:
        job = await node.enqueue("with_a_program", str(tmp_path / "started"), "wait")
        pids = await written(tmp_path / "started")
        await job.cancel("stop it")
        with pytest.raises(JobCanceled, match="stop it"):
            await job.result(timeout=PATIENCE)
        await gone(*pids)


async def test_a_canceled_job_that_waits_for_a_child_never_runs(tmp_path: Path) -> None:
    async with station() as node:
        first = await node.enqueue("run_until", str(tmp_path / "a"), str(tmp_path / "go"))
        await written(tmp_path / "a")
        second = await node.enqueue("run_until", str(tmp_path / "b"), str(tmp_path / "go"))
        while (await second.info()).state is not State.RUNNING:  # noqa: ASYNC110  the node
            await asyncio.sleep(0)
        await second.cancel()
        with pytest.raises(JobCanceled):
            await second.result(timeout=PATIENCE)
        (tmp_path / "go").touch()
        await first.result(timeout=PATIENCE)
        assert not (tmp_path / "b").exists()


async def test_only_a_job_whose_child_is_occupied_waits_for_others(tmp_path: Path) -> None:
    """A child that is being started, or imports the task, is for the job that asked for it."""
    async with station() as node:
        assert node.node._node is not None
        queued = node.node._node._crew.bench.queued
        first = await node.enqueue("run_until", str(tmp_path / "a"), str(tmp_path / "go"))
        while (await first.info()).state is not State.RUNNING:  # noqa: ASYNC110  the node
            await asyncio.sleep(0)
        while not (tmp_path / "a").exists():
            assert not queued
            await asyncio.sleep(0.002)
        second = await node.enqueue("run_until", str(tmp_path / "b"), str(tmp_path / "go"))
        await until(lambda: list(queued) == [second.id])
        (tmp_path / "go").touch()
        await second.result(timeout=PATIENCE)
        assert not queued


async def test_a_drain_gives_back_what_does_not_end_and_leaves_no_process(tmp_path: Path) -> None:
    async with station(kill_grace=NO_TIME) as node:
        job = await node.enqueue("hang", str(tmp_path / "started"))
        (pid,) = await written(tmp_path / "started")
    info = await job.info()
    assert (info.state, info.attempt) == (State.PENDING, 1), "uncharged"
    assert not is_alive(pid)


async def test_a_drain_takes_the_result_of_a_job_that_hurries(tmp_path: Path) -> None:
    async with station(kill_grace=timedelta(seconds=PATIENCE)) as node:
        job = await node.enqueue("finish_when_asked", str(tmp_path / "started"))
        await until((tmp_path / "started").exists)
    assert (await job.info()).state is State.SUCCEEDED
    assert await job.result() == "finished after all"


@pytest.mark.parametrize("politely", [False, True])
async def test_a_lost_claim_kills_at_once_however_long_the_grace_is(
    politely: bool, tmp_path: Path
) -> None:
    async with station(kill_grace=timedelta(seconds=PATIENCE)) as node:
        await node.enqueue("hang", str(tmp_path / "started"))
        (pid,) = await written(tmp_path / "started")
        (child,) = node.children()
        attempt = child.job
        assert isinstance(attempt, Attempt)
        if politely:
            attempt.stop_for(Stop.CANCEL)
            await asyncio.sleep(0.01)
            assert is_alive(pid)
        attempt.stop_for(Stop.FENCED)
        await until(lambda: attempt.over)
        assert not is_alive(pid)


# ---------------------------------------------------------------- dying


@pytest.mark.parametrize(
    "how,message",
    [
        ("exit", "the child process ended with exit code 9"),
        ("segfault", "the child process was killed by SIGSEGV"),
        ("kill", "killed by SIGKILL, as the kernel does when memory runs out"),
    ],
)
async def test_a_child_that_dies_fails_its_job_and_no_other(
    how: str, message: str, tmp_path: Path
) -> None:
    async with station(2) as node:
        neighbour = await node.enqueue("run_until", str(tmp_path / "a"), str(tmp_path / "go"))
        (pid,) = await written(tmp_path / "a")
        error = await node.failure("die", how)
        assert error["type"] == "ProcessDied"
        assert message in error["message"]
        (tmp_path / "go").touch()
        assert await neighbour.result(timeout=PATIENCE) == pid
        assert await node.result("nothing") is None


async def test_a_death_is_retried_by_the_policy(tmp_path: Path) -> None:
    async with station() as node:
        job = await node.enqueue("die_once_retried", str(tmp_path / "marker"))
        assert await job.result(timeout=PATIENCE) == 2
        assert [error["type"] for error in await node.attempts(job)] == ["ProcessDied"]


async def test_a_child_that_dies_takes_its_programs_with_it(tmp_path: Path) -> None:
    async with station() as node:
        error = await node.failure("with_a_program", str(tmp_path / "started"), "die")
        assert "exit code 5" in error["message"]
        await gone(*await written(tmp_path / "started"))


async def test_a_death_is_noticed_although_a_fork_holds_the_line_open(tmp_path: Path) -> None:
    async with station() as node:
        error = await node.failure("fork_and_die", str(tmp_path / "started"))
        assert "exit code 6" in error["message"]
        await gone(*await written(tmp_path / "started"))


async def test_a_child_that_talks_nonsense_is_killed() -> None:
    async with station() as node:
        for how, said in (
            ("length", "a frame of kind 255 with 4,294,967,295 bytes"),
            ("kind", "a frame of kind 99"),
            ("head", "a frame of kind DONE with the wrong head"),
            ("order", "a frame of kind STOP, which only the node sends"),
        ):
            error = await node.failure("garble", how)
            assert error["type"] == "ProcessDied"
            assert f"the child process was killed: it sent {said}" in error["message"]
        assert await node.result("nothing") is None


async def test_an_idle_child_that_dies_is_replaced_and_costs_no_job() -> None:
    async with station() as node:
        pid = await node.result("pid")
        os.kill(pid, signal.SIGKILL)
        await until(lambda: not node.children())
        assert await node.result("pid") != pid


# ---------------------------------------------------------------- starting and loading


async def test_children_that_cannot_start_cost_no_attempts(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async with station() as node:
        told: list[ExecutorTrouble] = []
        node.app.on(ExecutorTrouble, told.append)
        monkeypatch.setattr(worker_module, "_CODE", "import sys; sys.exit(3)")
        jobs = [await node.enqueue("nothing") for _ in range(3)]
        await until(lambda: len(told) == 3)
        assert "exit code 3" in told[0].error
        assert told[0].executor == "process"
        infos = [await job.info() for job in jobs]
        assert [(info.attempt, info.state) for info in infos] == [(1, State.PENDING)] * 3
        assert not node.children()


async def test_a_program_that_is_not_there_costs_no_attempt_either(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    before = open_files()
    async with station() as node:
        told: list[ExecutorTrouble] = []
        node.app.on(ExecutorTrouble, told.append)
        monkeypatch.setattr(sys, "executable", "/nowhere/python")
        await node.enqueue("nothing")
        await until(lambda: told)
        assert "could not be started: [Errno 2]" in told[0].error
    assert open_files() == before


async def test_starting_is_tried_again_and_works_when_it_can(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(children_module, "FIRST_PAUSE", 0.01)
    async with station() as node:
        told: list[ExecutorTrouble] = []
        node.app.on(ExecutorTrouble, told.append)
        with monkeypatch.context() as broken:
            broken.setattr(worker_module, "_CODE", "import sys; sys.exit(3)")
            await node.enqueue("nothing")
            await until(lambda: told)
        await until(lambda: node.executor()._children._start_again_at < time.monotonic())
        assert await node.result("pid")
        assert node.executor()._children._failures == 0


async def test_a_child_that_takes_too_long_to_start_is_killed(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    path = tmp_path / "pid"
    code = f"import os, time; open({str(path)!r}, 'w').write(str(os.getpid())); time.sleep(20)"
    monkeypatch.setattr(worker_module, "_CODE", code.replace("{", "{{"))
    async with station(load_timeout=timedelta(seconds=1)) as node:
        told: list[ExecutorTrouble] = []
        node.app.on(ExecutorTrouble, told.append)
        await node.enqueue("nothing")
        await until(lambda: told)
        assert "starting it took longer than 1 s" in told[0].error
        await gone(*await written(path))


async def test_a_module_that_hangs_or_fails_in_a_child_says_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.syspath_prepend(str(tmp_path))
    (tmp_path / "elsewhere.py").write_text(
        "import os, time\n"
        "from detent import App\n"
        "app = App('memory://')\n"
        "if 'ELSEWHERE' in os.environ: exec(os.environ['ELSEWHERE'])\n"
        "@app.task(executor='process')\n"
        "def work() -> int: return 1\n"
    )
    elsewhere = importlib.import_module("elsewhere")

    for program, message in (
        ("raise OSError('no licence')", "in a child process: no licence"),
        ("import time; time.sleep(20)", "importing elsewhere took longer than 0.1 s"),
    ):
        monkeypatch.setenv("ELSEWHERE", program)
        async with station() as node:
            await node.result("nothing")
            if "sleep" in program:
                node.executor()._load_timeout = 0.1
            node.app.tasks.add(elsewhere.work)
            error = await node.failure("elsewhere.work", retry=Retry(max_attempts=1))
            assert message in error["message"]
    monkeypatch.delenv("ELSEWHERE")
    async with station() as node:
        node.app.tasks.add(elsewhere.work)
        assert await node.result("elsewhere.work") == 1


# ---------------------------------------------------------------- how many, how long, how big


async def test_children_are_started_as_they_are_needed_up_to_the_size(tmp_path: Path) -> None:
    async with station(2) as node:
        assert node.children() == [], "none before the first job"
        assert await node.result("pid") == await node.result("pid")
        assert len(node.children()) == 1, "one is enough for one after the other"
        jobs = [
            await node.enqueue("run_until", str(tmp_path / str(n)), str(tmp_path / "go"))
            for n in range(3)
        ]
        pids = {*await written(tmp_path / "0"), *await written(tmp_path / "1")}
        assert len(pids) == 2
        assert not (tmp_path / "2").exists()
        (tmp_path / "go").touch()
        assert {await job.result(timeout=PATIENCE) for job in jobs} == pids


async def test_a_child_is_replaced_after_its_number_of_jobs() -> None:
    async with station(max_jobs=2) as node:
        pids = [await node.result("pid") for _ in range(5)]
        assert pids[0] == pids[1] != pids[2] == pids[3] != pids[4]
        await gone(*pids[:4])


async def test_a_child_that_has_grown_is_replaced_after_its_job(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(children_module, "WATCH", PATIENCE)
    async with station(max_memory="400MB") as node:
        small = await node.result("pid")
        assert await node.result("pid") == small
        (child,) = node.children()
        assert 10 << 20 < child.resident() < 400 << 20
        # A limit that it is above already, and nobody to look while its job runs.
        node.executor()._children._max_memory = child.resident() - 1
        assert await node.result("pid") == small
        assert await node.result("pid") != small


async def test_a_job_that_takes_too_much_memory_is_killed(tmp_path: Path) -> None:
    async with station(max_memory="128MB") as node:
        error = await node.failure("grow", 200, str(tmp_path / "grown"))
        assert error["type"] == "ProcessDied"
        assert "of memory, more than max_memory = 128MB" in error["message"]
        assert await node.result("nothing") is None


async def test_a_limit_below_what_python_itself_needs_fails_jobs_and_starts_no_storm(
    tmp_path: Path,
) -> None:
    async with station(max_memory="16MB") as node:
        error = await node.failure("hang", str(tmp_path / "started"))
        assert "more than max_memory = 16MB" in error["message"]


async def test_children_without_work_end_after_a_while() -> None:
    async with station(idle=timedelta(milliseconds=20)) as node:
        pid = await node.result("pid")
        await gone(pid)
        assert await node.result("pid") != pid


# ---------------------------------------------------------------- closing


async def test_closing_leaves_nothing_behind() -> None:
    before = open_files()
    async with station(2) as node:
        pids = {await node.result("pid") for _ in range(2)}
    assert not any(is_alive(pid) for pid in pids)
    assert open_files() == before


async def test_closing_ends_a_child_that_is_just_being_started(tmp_path: Path) -> None:
    async with station() as node:
        await node.enqueue("nothing")
        await until(node.children)
        (child,) = node.children()
        await until(lambda: child.pid)
    assert child.pid is not None
    assert not is_alive(child.pid)


def test_all_of_it_works_on_uvloop_too(tmp_path: Path) -> None:
    async def main() -> None:
        async with station(2, kill_grace=NO_TIME) as node:
            assert await node.result("size_of", "x" * 900_000) == 900_000
            assert "exit code 9" in (await node.failure("die", "exit"))["message"]
            job = await node.enqueue("hang", str(tmp_path / "started"))
            (pid,) = await written(tmp_path / "started")
            await job.cancel()
            with pytest.raises(JobCanceled):
                await job.result(timeout=PATIENCE)
            assert not is_alive(pid)

    uvloop.run(main())


PARENT = """
import asyncio, sys
sys.path.insert(0, {root!r})
from tests.unit.process_node import station
async def main():
    async with station(2) as node:
        await asyncio.gather(*(node.enqueue(*call) for call in {calls!r}))
        await asyncio.sleep(60)
asyncio.run(main())
"""


def test_children_end_with_a_parent_that_is_killed(tmp_path: Path) -> None:
    """Even one that holds the GIL, and with the programs that they started."""
    calls = [
        ("hold_the_gil", str(tmp_path / "one")),
        ("with_a_program", str(tmp_path / "two"), "wait"),
    ]
    code = PARENT.format(root=str(Path(__file__).parents[2]), calls=calls)
    with subprocess.Popen([sys.executable, "-c", code]) as parent:
        try:
            pids = asyncio.run(_started(tmp_path))
        finally:
            parent.kill()
    began = time.monotonic()
    asyncio.run(gone(*pids))
    assert time.monotonic() - began < 5


async def _started(folder: Path) -> list[int]:
    return [*await written(folder / "one"), *await written(folder / "two")]


async def test_a_child_that_was_ended_before_it_began_never_does() -> None:
    child = Worker(lambda *_: None)
    await child.kill()
    with pytest.raises(ProcessDied):
        await child.start(1)
    assert child.pid is None


async def test_many_jobs_at_once_are_all_done(tmp_path: Path) -> None:
    async with station(2, slots=50) as node:
        task = node.app.tasks.get("size_of")
        jobs = await node.app.enqueue_many([task.bind("x" * n) for n in range(300)])
        assert [await job.result(timeout=PATIENCE) for job in jobs] == list(range(300))
        assert len(node.children()) == 2
