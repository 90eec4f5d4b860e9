"""A job as the child process knows it that runs it: its context there, and its way to the node."""

import asyncio
import time
from collections.abc import Callable, Coroutine, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from datetime import datetime
from threading import RLock
from typing import Any, Final, NoReturn
from uuid import UUID

from detent.errors import ClaimLost, ConfigError, JobCanceled
from detent.executors.frames import Cancel, Head, Kind, Line, Progress, Run
from detent.model.text import storable

# Progress is stored once a second; a loop that tells it all the time must not flood the node. Nor
# must one that shows all the time that it goes on.
PROGRESS_PAUSE: Final = 0.1

Send = Callable[[Kind, Head], None]


class ChildJob:
    """What stands behind a `JobContext` in a child."""

    stop: str | None = None
    reason: str | None = None

    def __init__(self, run: Run, send: Send, max_log_line: int) -> None:
        self._run = run
        self._send = send
        self._max_log_line = max_log_line
        self._lock = RLock()
        self._over = False
        self._told_at = 0.0
        self._beat_at = 0.0
        self._untold: Progress | None = None
        self._interrupt: Callable[[], None] | None = None
        self.queue = run.queue
        self.node_id = run.node_id

    # What the task sees

    @property
    def job_id(self) -> UUID:
        """See `AttemptPort`, here and below."""
        return self._run.job_id

    @property
    def task_name(self) -> str:
        return self._run.task

    @property
    def attempt(self) -> int:
        return self._run.attempt

    @property
    def generation(self) -> int:
        return self._run.generation

    @property
    def fence(self) -> int:
        return self._run.fence

    @property
    def principal(self) -> str | None:
        return self._run.principal

    @property
    def schedule(self) -> str | None:
        return self._run.schedule

    @property
    def slot(self) -> datetime | None:
        return self._run.slot

    def deadline(self) -> datetime | None:
        return self._run.deadline

    def params(self) -> Mapping[str, Any]:
        return self._run.params

    def tags(self) -> Sequence[str]:
        return tuple(self._run.tags)

    def cancel_requested(self) -> bool:
        return self.stop is not None

    def check_canceled(self) -> None:
        if self.stop == "fenced":
            raise ClaimLost(self.job_id)
        if self.stop is not None:
            raise JobCanceled(self.job_id, self.reason or self.stop)

    def heartbeat(self) -> None:
        """Tell the node, unless it was told just before."""
        with self._lock:
            if not self._over and time.monotonic() - self._beat_at >= PROGRESS_PAUSE:
                self._send(Kind.HEARTBEAT, None)
                self._beat_at = time.monotonic()

    def save_progress(self, fraction: float, message: str | None) -> None:
        """Tell the node now, or soon when it was told just before."""
        text = None if message is None else storable(message, self._max_log_line)
        with self._lock:
            self._untold = Progress(float(fraction), text)
            if time.monotonic() - self._told_at >= PROGRESS_PAUSE:
                self.flush()

    def write_log(self, level: str, message: str) -> None:
        """Tell the node; what a thread says that outlives its job belongs to nobody."""
        line: Any = Line(level, storable(str(message), self._max_log_line))  # type: ignore[arg-type]
        with self._lock:
            if not self._over:
                self._send(Kind.LOG, line)

    def set_result(self, value: Any) -> NoReturn:
        self._refuse("set_result()")

    def transaction(self) -> AbstractAsyncContextManager[Any]:
        self._refuse("transaction()")

    def _refuse(self, what: str) -> NoReturn:
        raise ConfigError(
            f"ctx.{what} is not there in a child process, which never opens the store: declare "
            f"the task {self.task_name} as async def without executor="
        )

    # What the child does with it

    def flush(self) -> None:
        """Tell the progress that was held back."""
        with self._lock:
            if self._untold is not None and not self._over:
                self._send(Kind.PROGRESS, self._untold)
                self._told_at = time.monotonic()
            self._untold = None

    def end(self) -> None:
        """Let nothing more be said: what follows is the job's end."""
        with self._lock:
            self.flush()
            self._over = True

    def cancel(self, order: Cancel) -> None:
        """Let the task know that it should end; called by the thread that listens."""
        with self._lock:
            self.stop, self.reason = order.cause, order.reason
            if self._interrupt is not None:
                self._interrupt()

    def run_async(
        self,
        function: Callable[..., Any],
        args: Any,
        kwargs: Any,
        run: Callable[[Coroutine[Any, Any, Any]], Any] = asyncio.run,
    ) -> Any:
        """Run an async function on a loop of its own; a cancel reaches it as on the node's."""
        return run(self._awaited(function, args, kwargs))

    async def _awaited(self, function: Callable[..., Any], args: Any, kwargs: Any) -> Any:
        loop, task = asyncio.get_running_loop(), asyncio.current_task()
        assert task is not None

        def interrupt() -> None:
            loop.call_soon_threadsafe(task.cancel)

        with self._lock:
            self._interrupt = interrupt
        try:
            # A cancel that came before there was anything to interrupt.
            if self.stop is not None:
                task.cancel()
            return await function(*args, **kwargs)
        finally:
            with self._lock:
                self._interrupt = None
