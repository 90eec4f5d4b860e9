"""The tasks of the tests of child processes; the children import this module too.

Children and tests meet in the file system: a task touches a file and a test waits for it, or the
other way round.
"""

import asyncio
import contextlib
import contextvars
import ctypes
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from detent import App, Fail, JobCanceled, JobContext, Retry, RetryAfter, Snooze
from detent.executors.frames import Kind, pack
from detent.stores.memory import MemoryStore

PATIENCE = 20.0
ONCE = Retry(max_attempts=1)
SOON = Retry(max_attempts=3, delay=timedelta(0), jitter=False)

_leak: contextvars.ContextVar[str] = contextvars.ContextVar("leak", default="clean")


@dataclass
class Point:
    x: int
    at: datetime


class OwnError(Exception):
    """An error with an unusual constructor, which pickle could not bring home."""

    def __init__(self, code: int, *, detail: str) -> None:
        super().__init__(f"code {code}: {detail}")


class Hopeless(Fail):
    """A kind of failure that a task defines for itself."""


class Speechless(Exception):
    def __str__(self) -> str:
        raise RuntimeError("no words")


def wait_for(path: str) -> None:
    ends_at = time.monotonic() + PATIENCE
    while not Path(path).exists():
        assert time.monotonic() < ends_at, f"nobody made {path}"
        time.sleep(0.002)


def pid() -> int:
    return os.getpid()


def echo(point: Point, many: list[int], big: str = "") -> dict[str, Any]:
    return {"next": Point(point.x + 1, point.at), "type": type(point).__name__, "sum": sum(many)}


def size_of(text: str) -> int:
    return len(text)


def text_of(length: int) -> Any:
    return "é" * length


def unstorable() -> object:
    return object()


def nothing() -> None:
    return None


def introspect(ctx: JobContext, number: int) -> dict[str, Any]:
    below = JobContext.current()
    assert (below.job_id, below.fence) == (ctx.job_id, ctx.fence)
    ctx.log.info("from a child")
    ctx.log.error("x" * 20_000)
    ctx.progress(0.25, "a quarter")  # type: ignore[unused-awaitable]
    ctx.progress(0.75, "three quarters")  # type: ignore[unused-awaitable]
    ctx.check_canceled()
    return {
        "job_id": ctx.job_id,
        "task": ctx.task,
        "queue": ctx.queue,
        "attempt": ctx.attempt,
        "generation": ctx.generation,
        "fence": ctx.fence,
        "node_id": ctx.node_id,
        "deadline": ctx.deadline,
        "params": ctx.params,
        "tags": ctx.tags,
        "schedule": ctx.schedule,
        "slot": ctx.slot,
        "canceled": ctx.cancel_requested,
        "number": number,
        "now": datetime.now(UTC),
    }


def transact(ctx: JobContext) -> None:
    with contextlib.suppress(Snooze):
        ctx.transaction()


def set_result(ctx: JobContext) -> None:
    ctx.set_result(1)


def progress_often(ctx: JobContext, times: int) -> int:
    for number in range(times):
        ctx.progress(number / times)  # type: ignore[unused-awaitable]
    return times


def beat_often(ctx: JobContext, times: int) -> int:
    for _ in range(times):
        ctx.heartbeat()  # type: ignore[unused-awaitable]
    return times


def hold_back(ctx: JobContext, until: str) -> None:
    ctx.progress(0.1)  # type: ignore[unused-awaitable]
    ctx.progress(0.9, "held back")  # type: ignore[unused-awaitable]
    wait_for(until)


def leak() -> str:
    before = _leak.get()
    _leak.set("dirty")
    return before


def fail_with(kind: str) -> None:
    try:
        list[int]().pop()
    except IndexError as cause:
        makers: dict[str, Callable[[], BaseException]] = {
            "value": lambda: ValueError("bad value"),
            "unicode": lambda: UnicodeDecodeError("utf-8", b"\xff", 0, 1, "worse value"),
            "own": lambda: OwnError(7, detail="seven"),
            "fail": lambda: Fail("no use"),
            "hopeless": lambda: Hopeless("no hope"),
            "retry_after": lambda: RetryAfter(timedelta(seconds=0), "not yet"),
            "canceled": lambda: JobCanceled(JobContext.current().job_id, "by itself"),
            "exit": lambda: SystemExit(3),
            "interrupt": KeyboardInterrupt,
            "stop": StopIteration,
            "speechless": Speechless,
            "surrogate": lambda: ValueError("a \ud800 and a \0"),
            "cancelled": asyncio.CancelledError,
        }
        error = makers[kind]()
        raise error from cause


def snooze_first(marker: str) -> int:
    if not Path(marker).exists():
        Path(marker).touch()
        raise Snooze(timedelta(0))
    return JobContext.current().attempt


def caused_by_key_error(kind: str) -> None:
    try:
        dict[str, int]().__getitem__("missing")
    except KeyError as error:
        raise (RetryAfter(timedelta(0)) if kind == "retry_after" else OSError("wrapped")) from error


def run_until(started: str, until: str) -> int:
    Path(started).write_text(str(os.getpid()))
    wait_for(until)
    return os.getpid()


def hang(started: str) -> None:
    Path(started).write_text(str(os.getpid()))
    time.sleep(PATIENCE)


def hold_the_gil(started: str) -> None:
    Path(started).write_text(str(os.getpid()))
    # A C function called without letting go of the interpreter: no Python runs meanwhile.
    ctypes.PyDLL(None).sleep(int(PATIENCE))


def with_a_program(started: str, mode: str) -> None:
    """Have a grandchild, which would outlive a child that is killed alone."""
    program = subprocess.Popen([sys.executable, "-c", f"import time; time.sleep({PATIENCE})"])
    Path(started).write_text(f"{os.getpid()} {program.pid}")
    if mode == "die":
        os._exit(5)
    program.wait()


def fork_and_die(started: str) -> None:
    """Die while a forked copy holds every descriptor open, the socket to the node included."""
    forked = os.fork()
    if forked == 0:
        time.sleep(PATIENCE)
        os._exit(0)
    Path(started).write_text(f"{os.getpid()} {forked}")
    os._exit(6)


def listen(ctx: JobContext, started: str) -> None:
    """End politely when it is asked to."""
    Path(started).write_text(str(os.getpid()))
    ends_at = time.monotonic() + PATIENCE
    while time.monotonic() < ends_at:
        ctx.check_canceled()
        time.sleep(0.002)


def finish_when_asked(ctx: JobContext, started: str) -> str:
    """Take a cancel as a reason to hurry, and come to an end."""
    Path(started).touch()
    ends_at = time.monotonic() + PATIENCE
    while not ctx.cancel_requested and time.monotonic() < ends_at:
        time.sleep(0.002)
    return "finished after all"


async def wait_async(started: str, cleaned: str) -> None:
    Path(started).write_text(str(os.getpid()))  # noqa: ASYNC240
    try:
        await asyncio.sleep(PATIENCE)
    finally:
        Path(cleaned).touch()  # noqa: ASYNC240


async def add_async(ctx: JobContext, a: int, b: int) -> list[Any]:
    await asyncio.sleep(0)
    await ctx.progress(1.0)
    return [a + b, str(JobContext.current().job_id), os.getpid()]


def die(how: str) -> None:
    match how:
        case "exit":
            os._exit(9)
        case "kill":
            os.kill(os.getpid(), signal.SIGKILL)
        case "segfault":
            ctypes.string_at(0)


def die_once(marker: str) -> int:
    if not Path(marker).exists():
        Path(marker).touch()
        os._exit(1)
    return JobContext.current().attempt


def garble(how: str) -> None:
    """Write to the node what is no frame."""
    wire = next(fd for fd in range(3, 100) if _is_socket(fd))
    nonsense = {
        "length": b"\xff" * 64,
        "kind": b"\0\0\0\x05c\0\0\0\0",
        "head": b"\0\0\0\x07\x0b\0\0\0\x02{}",
        "order": pack(Kind.STOP),
    }
    os.write(wire, nonsense[how])
    time.sleep(PATIENCE)


def _is_socket(fd: int) -> bool:
    try:
        return str(Path(f"/proc/self/fd/{fd}").readlink()).startswith("socket:")
    except OSError:
        return False


def say(text: str) -> None:
    print(text)  # noqa: T201
    sys.stderr.write(f"{text} again\n")


def signaled() -> str:
    """Be asked to end as all processes of a service are, and go on."""
    os.kill(os.getpid(), signal.SIGTERM)
    os.kill(os.getpid(), signal.SIGINT)
    program = [sys.executable, "-c", "import signal; print(signal.getsignal(signal.SIGTERM))"]
    return subprocess.run(program, capture_output=True, text=True, check=True).stdout.strip()


def grow(megabytes: int, started: str) -> int:
    held = bytearray(megabytes << 20)
    held[:: 1 << 12] = b"x" * len(held[:: 1 << 12])
    if started:
        Path(started).touch()
        time.sleep(PATIENCE)
    return len(held)


def open_descriptors() -> list[str]:
    links = list(Path("/proc/self/fd").iterdir())
    # All but the one by which the folder itself was read.
    return sorted(str(link.readlink()) for link in links if os.path.lexists(link))


def modules() -> list[str]:
    return sorted({name.partition(".")[0] for name in sys.modules})


EVERYTHING: list[Callable[..., Any]] = [
    value
    for name, value in list(globals().items())
    if getattr(value, "__module__", None) == __name__
    and callable(value)
    and not isinstance(value, type)
    and not name.startswith("_")
]


def declare(app: App, executor: str = "process") -> None:
    """Declare all of them with an app; a test's own, or the one that children find below."""
    never = Retry(max_attempts=3, delay=timedelta(0), jitter=False, never=(ValueError, KeyError))
    for function in EVERYTHING:
        app.task(name=function.__name__, executor=executor, retry=ONCE)(function)
    app.task(name="fail_with_retries", executor=executor, retry=SOON)(fail_with)
    app.task(name="fail_never", executor=executor, retry=never)(fail_with)
    app.task(name="caused_never", executor=executor, retry=never)(caused_by_key_error)
    app.task(name="die_once_retried", executor=executor, retry=SOON)(die_once)
    app.task(name="strict", executor=executor, retry=ONCE, strict_result=True)(unstorable)


app = App(store=MemoryStore())
declare(app)


def unknown_to_children(number: int) -> int:
    """Is declared by a test alone."""
    return number
