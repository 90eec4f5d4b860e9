"""What a child process does: it loads tasks, runs one job at a time, and ends with its parent.

It never opens the store. What a job says goes to the node over one socket; a thread listens there
while the main thread works, so that a cancel arrives and the parent's end is noticed.
"""

import contextlib
import contextvars
import faulthandler
import fcntl
import io
import os
import resource
import select
import signal
import socket
import sys
import threading
from queue import SimpleQueue
from typing import Any, Final

from detent.context import JobContext, bind
from detent.control_flow import Fail
from detent.errors import InvalidArguments, InvalidJob, PayloadTooLarge
from detent.executors.frames import (
    Done,
    Frame,
    Garbled,
    Head,
    Kind,
    Load,
    Run,
    Setup,
    Unpacker,
    pack,
)
from detent.executors.household import Household
from detent.executors.job import ChildJob
from detent.executors.origin import find_task
from detent.executors.remote import tell
from detent.model.retry import NO_RETRY
from detent.principal import inherit
from detent.tasks import Task

# How often the listening thread looks up: held-back progress is told, the parent looked for.
TICK: Final = 1.0
RECEIVE: Final = 1 << 18
# The node's own limits have been applied to what it sends.
LONGEST: Final = (1 << 32) - 1


def main(wire: int, lifeline: int) -> None:
    """Serve the parent until it says stop, or is gone."""
    _end_with_parent(lifeline)
    _leave_signals_to_parent()
    if sys.stderr is not None:
        faulthandler.enable()
    for stream in (sys.stdout, sys.stderr):
        # It may be None, where the parent has none either.
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(line_buffering=True)
    os.set_inheritable(wire, False)
    Child(socket.socket(fileno=wire)).serve()


def _end_with_parent(lifeline: int) -> None:
    """Let the kernel kill this process and all that it starts when the parent is gone.

    The parent alone holds the other end of this pipe. Its end, however it came, closes it, which
    is something to read here, and of that the kernel informs our process group: by SIGKILL. So
    it needs nobody to be awake here, not even the holder of the GIL. Where there is no such
    service (only Linux has it), the thread that listens notices.
    """
    os.set_inheritable(lifeline, False)
    if hasattr(fcntl, "F_SETSIG"):
        with contextlib.suppress(OSError):
            fcntl.fcntl(lifeline, fcntl.F_SETOWN, -os.getpgid(0))
            fcntl.fcntl(lifeline, fcntl.F_SETSIG, signal.SIGKILL)
            flags = fcntl.fcntl(lifeline, fcntl.F_GETFL)
            fcntl.fcntl(lifeline, fcntl.F_SETFL, flags | os.O_ASYNC)


def _leave_signals_to_parent() -> None:
    """Go on when somebody asks all processes to end: the node decides how long jobs may run.

    By functions that do nothing, since what is ignored stays ignored in programs started here.
    """
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda _number, _frame: None)


class Child:
    """The child's side of the conversation."""

    def __init__(self, wire: socket.socket) -> None:
        self._wire = wire
        self._sending = threading.Lock()
        self._orders: SimpleQueue[Frame | None] = SimpleQueue()
        self._setup: Setup | None = None
        self._tasks: dict[str, Task[..., Any]] = {}
        self._job: ChildJob | None = None
        self._kept: Household | None = None

    def serve(self) -> None:
        """Do what is ordered, one after the other."""
        threading.Thread(target=self._listen, name="detent-wire", daemon=True).start()
        while (order := self._orders.get()) is not None:
            match order.kind:
                case Kind.SETUP:
                    self._set_up(order.head)
                case Kind.LOAD:
                    self._load(order.head)
                case Kind.RUN:
                    self._run(order.head, order.payload)
        if self._kept is not None:
            self._kept.close()

    def send(self, kind: Kind, head: Head = None, payload: bytes = b"") -> None:
        """Tell the node something; waits while the node is too busy to listen."""
        data = pack(kind, head, payload)
        with self._sending:
            self._wire.sendall(data)

    # The thread that listens

    def _listen(self) -> None:
        unpacker = Unpacker(LONGEST)
        poll = select.poll()
        poll.register(self._wire, select.POLLIN)
        while True:
            if poll.poll(TICK * 1000):
                data = self._receive()
                if not data:
                    _leave()
                try:
                    for frame in unpacker.feed(data):
                        self._take(frame)
                except Garbled:
                    _leave()
            else:
                self._look_up()

    def _receive(self) -> bytes:
        try:
            return self._wire.recv(RECEIVE)
        except OSError:
            return b""

    def _take(self, frame: Frame) -> None:
        match frame.kind:
            case Kind.CANCEL:
                if self._job is not None:
                    self._job.cancel(frame.head)
            case Kind.STOP:
                self._orders.put(None)
            case Kind.RUN:
                # Made here, so that a cancel right behind it finds its job.
                limit = 0 if self._setup is None else self._setup.max_log_line
                self._job = ChildJob(frame.head, self.send, limit)
                self._orders.put(frame)
            case _:
                self._orders.put(frame)

    def _look_up(self) -> None:
        if self._job is not None:
            self._job.flush()
        # A process that the parent forked may hold the other end of the socket for ever.
        if self._setup is not None and os.getppid() != self._setup.parent:
            _leave()

    # The main thread

    def _set_up(self, setup: Setup) -> None:
        self._setup = setup
        sys.path[:] = setup.path
        sys.argv[:] = setup.argv
        self.send(Kind.READY)

    def _load(self, order: Load) -> None:
        assert self._setup is not None
        try:
            main_module = self._setup.main_path, self._setup.main_name
            self._tasks[order.task] = find_task(order.task, order.modules, main_module)
        except BaseException as error:  # noqa: BLE001  the user's module: anything can happen
            self.send(Kind.RAISED, tell(error, NO_RETRY))
        else:
            self.send(Kind.READY)

    def _run(self, run: Run, payload: bytes) -> None:
        job, task = self._job, self._tasks[run.task]
        assert job is not None
        # In a context of its own: what one job sets the next must not find.
        kind, head, result = contextvars.copy_context().run(self._attempt, job, task, run, payload)
        job.end()
        self._job = None
        self.send(kind, head, result)

    def _attempt(
        self, job: ChildJob, task: Task[..., Any], run: Run, payload: bytes
    ) -> tuple[Kind, Head, bytes]:
        """Run the task's function; return the frame that ends the job."""
        bind(job)
        if run.principal is not None:
            inherit(run.principal)
        try:
            args, kwargs = _decode(job, task, run, payload)
            if task.signature.injected or task.signature.is_method:
                value = self._household().call(job, task, args, kwargs)
            elif task.is_async:
                value = job.run_async(task.function, args, kwargs)
            else:
                value = task.function(*args, **kwargs)
            return self._encode(task, value)
        except BaseException as error:  # noqa: BLE001  the user's function: handed on
            return Kind.RAISED, tell(error, task.options_declared.retry), b""

    def _household(self) -> Household:
        """Return what is kept here for tasks that depend on something."""
        if self._kept is None:
            self._kept = Household()
        return self._kept

    def _encode(self, task: Task[..., Any], value: Any) -> tuple[Kind, Head, bytes]:
        assert self._setup is not None
        result, problem = b"", None
        if value is not None:
            limit = self._setup.max_result
            try:
                result = task.enqueuer.codecs["json"].encode(value)
                if len(result) > limit:
                    raise PayloadTooLarge("the result", len(result), limit)
            except InvalidJob as error:
                result, problem = b"", str(error)
        return Kind.DONE, Done(problem, _memory()), result


def _decode(job: ChildJob, task: Task[..., Any], run: Run, payload: bytes) -> Any:
    codec = task.enqueuer.codecs.get(run.codec)
    if codec is None:
        raise Fail(f"the arguments are in the codec {run.codec!r}, unknown in the child process")
    context = JobContext(job) if task.signature.context_parameter is not None else None
    try:
        return task.signature.decode(codec, payload, context)
    except InvalidArguments as error:
        raise Fail(f"the arguments no longer fit the task: {error}") from error


def _memory() -> int:
    """Return the most bytes of memory that this process has used so far."""
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak if sys.platform == "darwin" else peak * 1024


def _leave() -> None:
    """End at once, with everything that was started here: nobody waits for it any more."""
    if os.getpgid(0) == os.getpid():
        os.killpg(0, signal.SIGKILL)
    os._exit(1)
