"""The tasks of the cluster tests. Nodes import `app`; tests make their own `Workload(App(url))`.

Every execution is written to an append-only file, so that what was run can be compared with what
the database believes.
"""

import asyncio
import ctypes
import os
import signal
import time
from collections.abc import Callable
from datetime import timedelta
from functools import cache
from pathlib import Path
from typing import Any, Final, NamedTuple, Self
from uuid import UUID

from asyncpg.transaction import Transaction

from detent import App, Fail, JobContext, Retry, Snooze

SOON: Final = Retry(max_attempts=3, delay=timedelta(milliseconds=10), backoff="fixed")


class Execution(NamedTuple):
    """One line of the file: one attempt that was really begun."""

    job: UUID
    generation: int
    attempt: int
    fence: int
    node: UUID
    pid: int
    at: float

    @classmethod
    def read_all(cls, path: Path) -> list[Self]:
        """Return what was run so far, in order."""
        if not path.exists():
            return []
        # The last line may be on its way: a write is not seen all at once.
        whole = path.read_text().rpartition("\n")[0]
        return [cls._of(*line.split()) for line in whole.splitlines()]

    @classmethod
    def _of(cls, job: str, generation: str, attempt: str, *rest: str) -> Self:
        fence, node, pid, at = rest
        return cls(
            UUID(job), int(generation), int(attempt), int(fence), UUID(node), int(pid), float(at)
        )


@cache
def _opened(path: str, _pid: int) -> int:
    return os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT)


def note(ctx: JobContext, path: str) -> None:
    """Write down that this attempt runs; short appends to a local file are whole or not there."""
    fields = (ctx.job_id, ctx.generation, ctx.attempt, ctx.fence, ctx.node_id, os.getpid())
    line = " ".join(map(str, (*fields, time.time()))) + "\n"
    os.write(_opened(path, os.getpid()), line.encode())


_hoard: Final[list[bytes]] = []


async def record(ctx: JobContext, path: str) -> None:
    """Do nothing but be counted."""
    note(ctx, path)


async def work(ctx: JobContext, path: str, seconds: float) -> None:
    """Take some time."""
    note(ctx, path)
    await asyncio.sleep(seconds)


async def flaky(ctx: JobContext, path: str) -> None:
    """Fail in the first attempt."""
    note(ctx, path)
    if ctx.attempt == 1:
        raise OSError("the first attempt always fails")


async def doomed(ctx: JobContext, path: str) -> None:
    """Fail for good in the first generation."""
    note(ctx, path)
    if ctx.generation == 1:
        raise Fail("only an operator can help")


async def hang(ctx: JobContext, path: str, until: str) -> None:
    """Go on until a file exists."""
    note(ctx, path)
    while not Path(until).exists():  # noqa: ASYNC110, ASYNC240  another process makes it
        await asyncio.sleep(0.05)


async def linger(ctx: JobContext, path: str, folder: str, *, within: bool = False) -> str:
    """Go on until told, for this very claim, how to end: see `tell`."""
    note(ctx, path)
    if within:
        async with ctx.transaction() as connection:
            await connection.execute("INSERT INTO effect (job) VALUES ($1)", ctx.job_id)
            ctx.set_result(await _told(ctx, folder))
    return await _told(ctx, folder)


async def _told(ctx: JobContext, folder: str) -> str:
    order = _order(folder, ctx.job_id, ctx.fence)
    while not order.exists():  # noqa: ASYNC110  another process makes it
        await asyncio.sleep(0.01)
    how = order.read_text()
    await ctx.progress(0.9, f"by {ctx.fence}")
    ctx.log.info("by a claim")
    if how == "fail":
        raise Fail(f"by {ctx.fence}")
    if how == "retry":
        raise OSError(f"by {ctx.fence}")
    if how == "snooze":
        raise Snooze(timedelta(hours=1))
    if how == "transaction":
        async with ctx.transaction() as connection:
            await connection.execute("INSERT INTO effect (job) VALUES ($1)", ctx.job_id)
            ctx.set_result(f"by {ctx.fence}")
    return f"by {ctx.fence}"


def tell(folder: Path, run: Execution, how: str) -> None:
    """Let one run of `linger` end: "return", "fail", "retry", "snooze" or "transaction"."""
    order = _order(str(folder), run.job, run.fence)
    # Complete from the moment when it is seen.
    draft = order.with_suffix(".draft")
    draft.write_text(how)
    draft.rename(order)


def _order(folder: str, job: UUID, fence: int) -> Path:
    return Path(folder) / f"{job}-{fence}"


async def poison(ctx: JobContext, path: str) -> None:
    """Kill the process, as a segmentation fault would."""
    note(ctx, path)
    os.kill(os.getpid(), signal.SIGKILL)


async def hoard(ctx: JobContext, path: str, size: int) -> None:
    """Let the process grow for good."""
    note(ctx, path)
    _hoard.append(b"x" * size)


async def spin(ctx: JobContext, path: str, seconds: float) -> None:
    """Block the event loop: pure Python, without a pause."""
    note(ctx, path)
    ends_at = time.monotonic() + seconds
    while time.monotonic() < ends_at:
        pass


async def nap(ctx: JobContext, path: str, seconds: float) -> None:
    """Block the event loop in a call that lets other threads run."""
    note(ctx, path)
    time.sleep(seconds)  # noqa: ASYNC251  the mistake that people make


async def grip(ctx: JobContext, path: str, seconds: float) -> str:
    """Hold up the whole process, every thread of it, in the first run; as a C extension can."""
    note(ctx, path)
    if len(Execution.read_all(Path(path))) == 1:
        # PyDLL, unlike CDLL, does not let go of the interpreter's lock meanwhile.
        ctypes.PyDLL(None).usleep(int(seconds * 1_000_000))
        # Which thread goes on first is the system's choice. A job that was over before the one that
        # looks on had its turn could not be named; most have something to do with what they got.
        time.sleep(0.2)  # noqa: ASYNC251  it is to have the loop
    return f"by {ctx.fence}"


async def pay(ctx: JobContext, path: str, step: str, killed: str) -> str:
    """Have an effect exactly once, and be killed at some step of it, the first time."""
    note(ctx, path)
    kill = _killer(killed)
    _prepare(step, kill)
    if step == "before entering":
        kill()
    async with ctx.transaction() as connection:
        if step == "after the lock":
            kill()
        await connection.execute("INSERT INTO effect (job) VALUES ($1)", ctx.job_id)
        if step == "after the effect":
            kill()
        ctx.set_result("paid")
    if step == "after the block":
        kill()
    return "too late to matter"


def _killer(killed: str) -> Callable[[], None]:
    def kill() -> None:
        if not Path(killed).exists():
            Path(killed).touch()
            os.kill(os.getpid(), signal.SIGKILL)

    return kill


def _prepare(step: str, kill: Callable[[], None]) -> None:
    """Set a trap for the steps that happen outside the task."""
    commit = Transaction.commit

    async def trapped(self: Any) -> None:
        if step == "before the commit":
            kill()
        committing = asyncio.ensure_future(commit(self))
        if step == "during the commit":
            await asyncio.sleep(0)  # it is sent
            kill()
        await committing
        if step == "after the commit":
            kill()

    if step in ("before the commit", "during the commit", "after the commit"):
        Transaction.commit = trapped
    elif step == "after the return":
        task = asyncio.current_task()
        assert task is not None
        task.add_done_callback(lambda _: kill())


class Workload:
    """The tasks above, registered with an app."""

    def __init__(self, app: App) -> None:
        self.app = app
        self.record = app.task(name="record")(record)
        self.work = app.task(name="work")(work)
        self.flaky = app.task(name="flaky", retry=SOON)(flaky)
        self.doomed = app.task(name="doomed")(doomed)
        self.hang = app.task(name="hang")(hang)
        self.linger = app.task(name="linger", retry=SOON)(linger)
        self.poison = app.task(name="poison")(poison)
        self.hoard = app.task(name="hoard")(hoard)
        self.spin = app.task(name="spin")(spin)
        self.nap = app.task(name="nap")(nap)
        self.grip = app.task(name="grip")(grip)
        self.pay = app.task(name="pay")(pay)


app = App()
Workload(app)
