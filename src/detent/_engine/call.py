"""Makes the call that an attempt is about: through the middleware, in its executor, timed."""

import inspect
from collections.abc import Callable, Sequence
from datetime import timedelta
from typing import Any, Final

from detent._engine.attempt import Attempt, Stop
from detent._engine.inject import furnished, is_furnished_here
from detent.context import JobContext
from detent.errors import ExecutorUnavailable
from detent.events import StuckThread
from detent.options import read_options
from detent.spi.executor import Call, Encoded, Executor
from detent.tasks import Task

# Two moments that are less than this apart are one: sums of floats are not exact.
SLACK: Final = 0.001


def start_timer(attempt: Attempt, task: Task[..., Any]) -> None:
    """Let the time run after which the attempt is stopped, if it has a limit."""
    timeout = task.options_declared.timeout
    if attempt.claim.options is not None:
        stored = read_options(attempt.claim.options)
        if stored.timeout is not None:
            timeout = timedelta(seconds=stored.timeout)
    if timeout is not None:
        attempt.timeout = timeout.total_seconds()
    silence = task.options_declared.heartbeat_timeout
    if silence is not None:
        attempt.silence = silence.total_seconds()
    if timeout is not None or silence is not None:
        _set_timer(attempt)


def _set_timer(attempt: Attempt) -> None:
    if attempt.silence is not None:
        attempt.heartbeat()
        _watch(attempt, attempt.silence)
    elif attempt.timeout is not None:
        later = attempt.bench.runtime.later
        attempt.timer = later(attempt.timeout, lambda: attempt.stop_for(Stop.TIMEOUT))


def _watch(attempt: Attempt, silence: float) -> None:
    """Stop an attempt that is not heard of for too long, or takes too long; else look later."""
    runtime = attempt.bench.runtime
    now = runtime.monotonic()
    left = attempt.heard_at + silence - now
    if attempt.timeout is not None:
        left = min(left, attempt.started + attempt.timeout - now)
    if left <= SLACK:
        attempt.silent = attempt.heard_at + silence - now <= SLACK
        attempt.stop_for(Stop.TIMEOUT)
        return

    def look() -> None:
        # Who holds up the event loop keeps this job from being heard: that is not its silence.
        attempt.heard_at += max(runtime.monotonic() - now - left, 0.0)
        _watch(attempt, silence)

    attempt.timer = runtime.later(left, look)


async def call(
    attempt: Attempt,
    task: Task[..., Any],
    payload: bytes,
    args: list[Any],
    kwargs: dict[str, Any],
    members: Sequence[Attempt] = (),
) -> Any:
    """Make the call in its executor, through the middleware; `members` are all it is for."""
    bench, members = attempt.bench, members or (attempt,)
    name = task.options_declared.executor
    wrappers = (*bench.middleware, *task.options_declared.middleware)

    async def proceed() -> Any:
        executor = None if name == "async" else _executor(attempt, name)
        if is_furnished_here(task, executor):
            context = JobContext(attempt)
            return await furnished(bench, task, context, lambda made: run(executor, made))
        return await run(executor, task.function)

    async def run(executor: Executor | None, function: Callable[..., Any]) -> Any:
        if executor is None:
            return await function(*args, **kwargs)
        value = await executor.run(
            Call(
                function=function,
                args=args,
                kwargs=kwargs,
                task=task.name,
                modules=task.modules,
                payload=payload,
                codec=attempt.claim.codec,
                job=attempt,
                on_queued=lambda: _pause(members),
                on_assigned=lambda: _stop_waiting(attempt),
                on_begun=lambda: _begin_anew(members),
                on_abandoned=lambda: _linger(attempt),
                on_released=attempt.free,
            )
        )
        if wrappers and isinstance(value, Encoded) and value.data is not None:
            # Middleware is to see a value, wherever it was made.
            return bench.codecs["json"].decode(value.data)
        return value

    step = proceed
    for middleware in reversed(wrappers):
        step = _wrap(middleware, attempt, step)
    return await step()


def _wrap(middleware: Any, attempt: Attempt, step: Any) -> Any:
    def wrapped() -> Any:
        made = middleware(JobContext(attempt), step)
        if not inspect.isawaitable(made):
            raise TypeError(f"middleware {middleware!r} must be async def m(ctx, proceed)")
        return made

    return wrapped


def _executor(attempt: Attempt, name: str) -> Executor:
    executor = attempt.bench.executors.get(name)
    if executor is None:
        # A task that was declared after the node had started, and had looked at all of them.
        raise ExecutorUnavailable("this node has no executor of that name")
    return executor


def _pause(members: Sequence[Attempt]) -> None:
    """The call waits for a worker, which is not the job's fault: its time does not run."""
    lead = members[0]
    lead.bench.queued[lead.claim.id] = lead
    for attempt in members:
        attempt.calling = False
        if attempt.timer is not None:
            attempt.timer.cancel()
            attempt.timer = None


def _stop_waiting(lead: Attempt) -> None:
    """A worker is being made ready for the call: it does not wait for others to end."""
    lead.bench.queued.pop(lead.claim.id, None)


def _begin_anew(members: Sequence[Attempt]) -> None:
    """The wait is over: the attempt begins now."""
    _stop_waiting(members[0])
    for attempt in members:
        attempt.calling = True
        attempt.started = attempt.bench.runtime.monotonic()
        if (attempt.timeout or attempt.silence) and attempt.stop is None:
            _set_timer(attempt)


def _linger(attempt: Attempt) -> None:
    """A thread goes on although nobody waits for it."""
    attempt.lingering = True
    attempt.bench.bus.emit(StuckThread(attempt.claim.id, attempt.claim.task, attempt.node_id))
