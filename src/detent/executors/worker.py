"""One child process as the node sees it: started, spoken to, watched, and ended for certain."""

import asyncio
import contextlib
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Final

from detent.errors import ProcessDied
from detent.executors.frames import Frame, Garbled, Head, Kind, Unpacker, pack
from detent.spi.attempt import AttemptPort

# Where this package stands, for a child that could not find it: the rest of the path comes later.
_HERE: Final = str(Path(__file__).parents[2])
_CODE: Final = (
    "import sys; sys.path.insert(0, {here!r}); "
    "from detent.executors.child import main; main({wire}, {lifeline})"
)
# A killed process is gone within milliseconds, unless the kernel has reasons of its own.
PAUSES: Final = (0.0005, 0.001, 0.002, 0.005, 0.01, 0.02, 0.05)
REAP_LIMIT: Final = 5.0
_STATM_RESIDENT: Final = 1
_PAGE: Final = os.sysconf("SC_PAGE_SIZE") if hasattr(os, "sysconf") else 4096

_ANSWERS: Final = (Kind.READY, Kind.DONE, Kind.RAISED)


class Worker(asyncio.Protocol):
    """A child that does one thing at a time: `ask` gives an order and returns the answer."""

    def __init__(self, on_end: Callable[["Worker", "asyncio.Task[None]"], None]) -> None:
        self.loaded: set[str] = set()
        """The tasks that it knows."""
        self.jobs = 0
        self.idle_since = 0.0
        self.job: AttemptPort | None = None
        """Whose words it passes on at the moment."""
        self._on_end = on_end
        self._loop = asyncio.get_running_loop()
        self._answer: asyncio.Future[Frame] | None = None
        self._why: str | None = None
        self._ending: asyncio.Task[None] | None = None
        self._memory = 0
        self._unpacker: Unpacker
        self._lifeline: int
        self._process: subprocess.Popen[bytes] | None = None
        self._transport: asyncio.Transport | None = None

    # Its life

    async def start(self, limit: int) -> None:
        """Start the process, which knows nothing yet; no frame of it may be above the limit."""
        if not self.alive:
            raise ProcessDied("the pool is closed")
        self._unpacker = Unpacker(limit)
        try:
            wire = self._open()
        except OSError as error:
            raise ProcessDied(f"a child process could not be started: {error}") from error
        self._transport, _ = await self._loop.create_unix_connection(lambda: self, sock=wire)
        if not self.alive:
            self._transport.abort()

    def _open(self) -> socket.socket:
        """Start the process and return our end of the line to it."""
        with contextlib.ExitStack() as ours, contextlib.ExitStack() as theirs:
            wire, its_wire = socket.socketpair()
            ours.callback(wire.close)
            theirs.callback(its_wire.close)
            its_lifeline, self._lifeline = os.pipe()
            ours.callback(os.close, self._lifeline)
            theirs.callback(os.close, its_lifeline)
            self._process = _spawn(its_wire.fileno(), its_lifeline)
            # Theirs are closed here in any case, ours only when it came to nothing.
            ours.pop_all()
        return wire

    @property
    def alive(self) -> bool:
        """Whether it may be given work."""
        return self._ending is None

    def has_died(self) -> bool:
        """Look whether the process is gone, without taking notice of it.

        Its socket does not say so when somebody that it forked holds a copy.
        """
        if self._process is None:
            return False
        try:
            looked = os.waitid(os.P_PID, self._process.pid, os.WEXITED | os.WNOHANG | os.WNOWAIT)
        except ChildProcessError:
            return True
        return looked is not None

    def resident(self) -> int:
        """Return the bytes of memory it uses now; where that cannot be seen, what it last said."""
        try:
            # Often and at once: a path object would take longer than the reading.
            with open(f"/proc/{self.pid}/statm", "rb") as file:  # noqa: PTH123  see above
                return int(file.read().split()[_STATM_RESIDENT]) * _PAGE
        except (OSError, IndexError):
            return self._memory

    @property
    def pid(self) -> int | None:
        """The id of the process, when there is one."""
        return None if self._process is None else self._process.pid

    def end(self, why: str | None = None) -> None:
        """Kill it and whatever it started."""
        if self._ending is None:
            self._why = why
            self._ending = self._loop.create_task(self._bury(), name="detent-child-end")
            self._on_end(self, self._ending)

    async def kill(self, why: str | None = None) -> None:
        """Kill it and whatever it started, and wait until it is gone."""
        self.end(why)
        # Not awaited as such: our own caller's cancel must not keep it from being buried.
        await asyncio.wait([self._ending] if self._ending is not None else [])

    async def stop(self, grace: float) -> None:
        """Let it end by itself, so that it can tidy up; kill it when that takes too long."""
        self.send(Kind.STOP)
        ends_at = self._loop.time() + grace
        while not self.has_died() and self._loop.time() < ends_at:  # noqa: ASYNC110  a process
            await asyncio.sleep(PAUSES[-1])
        await self.kill()

    async def _bury(self) -> None:
        """Kill the process, wait for its end, and tell who waits for an answer how it died.

        The whole group is killed, and before the process is reaped: only until then does its
        number belong to nobody else. How a process ended that had done so before stays known.
        """
        if self._process is not None:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.killpg(self._process.pid, signal.SIGKILL)
            self._process.kill()
            if self._transport is not None:
                self._transport.abort()
            await self._reaped(self._process)
            os.close(self._lifeline)
        if self._answer is not None and not self._answer.done():
            self._answer.set_exception(self._died())

    async def _reaped(self, process: "subprocess.Popen[bytes]") -> None:
        ends_at = self._loop.time() + REAP_LIMIT
        pauses = iter(PAUSES)
        while process.poll() is None and self._loop.time() < ends_at:  # noqa: ASYNC110  a process
            await asyncio.sleep(next(pauses, PAUSES[-1]))

    def _died(self) -> ProcessDied:
        if self._why is not None:
            return ProcessDied(f"the child process was killed: {self._why}")
        return ProcessDied(_how(None if self._process is None else self._process.returncode))

    # Speaking with it

    def send(self, kind: Kind, head: Head = None, payload: bytes = b"") -> None:
        """Say something that needs no answer."""
        if self._transport is not None:
            self._transport.write(pack(kind, head, payload))

    def ask(self, kind: Kind, head: Head = None, payload: bytes = b"") -> asyncio.Future[Frame]:
        """Give an order; the future is its answer, or `ProcessDied`."""
        answer = self.answer()
        if self.alive:
            self.send(kind, head, payload)
        else:
            answer.set_exception(self._died())
        return answer

    def answer(self) -> asyncio.Future[Frame]:
        """Wait (again) for the answer to what was asked."""
        self._answer = self._loop.create_future()
        return self._answer

    def data_received(self, data: bytes) -> None:
        """See `asyncio.Protocol`."""
        try:
            for frame in self._unpacker.feed(data):
                self._take(frame)
        except Garbled as error:
            self.end(f"it sent {error}")

    def _take(self, frame: Frame) -> None:
        match frame.kind:
            case Kind.PROGRESS:
                if self.job is not None:
                    self.job.save_progress(frame.head.fraction, frame.head.message)
            case Kind.HEARTBEAT:
                if self.job is not None:
                    self.job.heartbeat()
            case Kind.LOG:
                if self.job is not None:
                    self.job.write_log(frame.head.level, frame.head.message)
            case kind if kind in _ANSWERS:
                if self._answer is None or self._answer.done():
                    raise Garbled("an answer to nothing")
                if kind is Kind.DONE:
                    self._memory = frame.head.memory
                self._answer.set_result(frame)
            case kind:
                raise Garbled(f"a frame of kind {kind.name}, which only the node sends")

    def connection_lost(self, _error: Exception | None) -> None:
        """See `asyncio.Protocol`."""
        self.end()


def _spawn(wire: int, lifeline: int) -> subprocess.Popen[bytes]:
    """Start a fresh interpreter in a session, and so a process group, of its own."""
    code = _CODE.format(here=_HERE, wire=wire, lifeline=lifeline)
    return subprocess.Popen(
        [sys.executable, *_flags(), "-c", code],
        stdin=subprocess.DEVNULL,
        # What a task prints must not end up in the output of the node's program.
        stdout=2,
        pass_fds=(wire, lifeline),
        start_new_session=True,
    )


def _flags() -> list[str]:
    """Return the options of this interpreter that its children should have too."""
    flags = sys.flags
    switches = {
        "-I": flags.isolated,
        "-E": flags.ignore_environment,
        "-s": flags.no_user_site,
        "-B": flags.dont_write_bytecode,
    }
    given = [name for name, is_set in switches.items() if is_set]
    given += ["-O"] * flags.optimize
    given += [f"-W{option}" for option in sys.warnoptions]
    options = sys._xoptions  # noqa: SLF001  documented under this name
    return given + [
        f"-X{name}" if value is True else f"-X{name}={value}" for name, value in options.items()
    ]


def _how(code: int | None) -> str:
    """Say how a process ended."""
    if code is None:
        return "the child process was killed and is not gone yet"
    if code >= 0:
        return f"the child process ended with exit code {code}"
    try:
        name = signal.Signals(-code).name
    except ValueError:
        name = f"signal {-code}"
    hint = ", as the kernel does when memory runs out" if -code == signal.SIGKILL else ""
    return f"the child process was killed by {name}{hint}"
