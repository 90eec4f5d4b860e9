"""Runs one attempt: a pipeline of small steps from a claim to its outcome.

Whatever the task does, one outcome comes out; `decide` says what follows from it, and the
finisher writes that down.
"""

import asyncio
from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta
from typing import Any, Final, Protocol
from uuid import UUID

from detent._engine.attempt import Attempt, Stop, encode_result
from detent._engine.call import call, start_timer
from detent._engine.expiry import too_late
from detent._engine.failure import describe_error, encode_error, reason_of
from detent._engine.guards import run_guarded, tell_guards
from detent._engine.unseal import unseal
from detent.context import JobContext, bind
from detent.control_flow import Fail, RetryAfter, Snooze
from detent.errors import (
    ExecutorUnavailable,
    InvalidArguments,
    InvalidJob,
    JobCanceled,
    JobTimeout,
    StoreError,
)
from detent.events import (
    ExecutorTrouble,
    JobDied,
    JobRetrying,
    JobSnoozed,
    JobStarted,
    JobSucceeded,
    JobTimedOut,
    JobWasCanceled,
    ResultDropped,
    StoreTrouble,
    TaskUnknown,
)
from detent.model.envelope import MARKER
from detent.model.failure import MESSAGE_LIMIT
from detent.model.job import OTHER_HOOKS, Completion, Settlement
from detent.model.outcome import Decision, Ending, Outcome, decide
from detent.model.payloads import dropped
from detent.model.retry import JITTER_BITS, NO_RETRY, Retry, merged
from detent.model.state import State
from detent.model.text import storable
from detent.options import read_options
from detent.pace import LARGE
from detent.principal import inherit
from detent.tasks import Task

# After this long a job comes back whose payload could not be loaded.
LOAD_AGAIN: Final = timedelta(seconds=1)
# And after this long one that its executor could not begin; another node may be luckier.
BEGIN_AGAIN: Final = timedelta(seconds=5)
SUCCEEDED: Final = Outcome(Ending.SUCCEEDED)


class Ends(Protocol):
    """Where the ends of attempts go; the finisher is one."""

    def complete(self, attempt: Attempt, completion: Completion) -> None: ...
    def settle(self, attempt: Attempt, settlement: Settlement) -> None: ...
    def drop(self, attempt: Attempt) -> None: ...


async def execute(attempt: Attempt, ends: Ends, on_end: Callable[[Attempt], None]) -> None:
    """Run an attempt from its first step to its last; never raises."""
    attempt.begun = True
    bind(attempt)
    try:
        outcome = None
        if attempt.claim.options is not None:
            inherit(attempt.principal)
            outcome = too_late(attempt)
        if outcome is None:
            outcome = await (run_guarded(attempt, _run) if attempt.bench.guards else _run(attempt))
    except BaseException as error:  # noqa: BLE001  the user's function: one outcome, always
        outcome = outcome_of(attempt, error)
    if attempt.over:
        # It was given up, and its end is written; see `stuck`.
        attempt.free()
        return
    attempt.over = True
    if attempt.admitted_by:
        tell_guards(attempt, outcome)
    if attempt.timer is not None:
        attempt.timer.cancel()
    try:
        if attempt.side_writes:
            await flush_side_writes(attempt)
        report(attempt, outcome, ends)
    finally:
        on_end(attempt)


async def flush_side_writes(attempt: Attempt) -> None:
    """Write what the task said before its end is written; without the claim it is refused."""
    if attempt.completed or attempt.stop is Stop.FENCED:
        return
    try:
        await attempt.bench.scribe.flush()
    except asyncio.CancelledError:
        # The node has lost its lease. The end of the job is known, and waits in the finisher.
        if not attempt.cut_short or attempt.task is None:
            raise
        attempt.task.uncancel()
    except StoreError as error:
        # The outcome matters more than its log lines, which may be lost here.
        attempt.bench.bus.emit(StoreTrouble("scribe", str(error), 0.0))


async def _run(attempt: Attempt) -> Outcome:
    """Resolve, decode, run, encode."""
    claim, bench = attempt.claim, attempt.bench
    task = attempt.job_task = bench.registry.find(claim.task)
    if task is None:
        return Outcome(Ending.UNKNOWN_TASK, reason="unknown_task")
    args = claim.args
    if args is None or bench.sealing is not None or args.startswith(MARKER):
        payload = await _payload(attempt, task)
        if isinstance(payload, Outcome):
            return payload
        args = payload
    if attempt.stop is not None or not bench.may_run():
        # A process that was stopped may have lost its claims before it could notice.
        return stopped(attempt)
    positional, keywords = decode_arguments(attempt, task, args)
    attempt.started = bench.runtime.monotonic()
    attempt.calling = True
    start_timer(attempt, task)
    if bench.bus.wants(JobStarted) or bench.heard:
        tell_started(attempt)
    if task.is_plain and not bench.middleware:
        value = await task.function(*positional, **keywords)
    else:
        value = await call(attempt, task, args, positional, keywords)
    if attempt.stop is not None and attempt.stop is not Stop.DRAIN and not attempt.completed:
        return stopped(attempt)
    if not attempt.completed:
        if bench.pace.spent:
            await bench.pace.turn()
        keep_result(attempt, task, value)
    return SUCCEEDED


async def _payload(attempt: Attempt, task: Task[..., Any]) -> bytes | Outcome:
    """Return arguments that did not come with the claim, or that are sealed."""
    claim, bench = attempt.claim, attempt.bench
    args = claim.args
    if args is None:
        try:
            args = (await bench.claims.load_args([claim]))[claim.id]
        except StoreError as error:
            # The store's trouble is not the task's: nothing is charged.
            bench.bus.emit(StoreTrouble("loading", str(error), LOAD_AGAIN.total_seconds()))
            return Outcome(Ending.SNOOZED, wait=LOAD_AGAIN)
        if len(args) >= LARGE:
            # They are about to be decoded.
            if bench.pace.spent:
                await bench.pace.turn()
            bench.pace.spend(len(args))
    if bench.sealing is None and not args.startswith(MARKER):
        return args
    return await unseal(attempt, task, args)


def decode_arguments(
    attempt: Attempt, task: Task[..., Any], args: bytes
) -> tuple[list[Any], dict[str, Any]]:
    """Return the arguments; what does not fit the signature will not fit next time either."""
    codec = attempt.bench.codecs.get(attempt.claim.codec)
    if codec is None:
        raise Fail(f"the arguments are in the unknown codec {attempt.claim.codec!r}")
    context = JobContext(attempt) if task.signature.context_parameter is not None else None
    try:
        return task.signature.decode(codec, args, context)
    except InvalidArguments as error:
        raise Fail(f"the arguments no longer fit the task: {error}") from error


def keep_result(attempt: Attempt, task: Task[..., Any], value: Any) -> None:
    """Encode the result; one that cannot be stored is replaced by a marker, or fails the job."""
    try:
        attempt.result = encode_result(attempt, value)
    except InvalidJob as error:
        if task.options_declared.strict_result:
            raise Fail(f"the result cannot be stored: {error}") from error
        # It names the place in the result, which may be a secret itself.
        problem = str(error) if attempt.sealer is None else describe_error(attempt, error)
        attempt.result = dropped(problem)
        attempt.bench.bus.emit(ResultDropped(attempt.claim.id, attempt.claim.task, problem))


def stopped(attempt: Attempt) -> Outcome:
    """Return the outcome of an attempt that was told to stop."""
    match attempt.stop:
        case Stop.TIMEOUT:
            return Outcome(Ending.TIMED_OUT, JobTimeout(_overdue(attempt)))
        case Stop.CANCEL:
            return Outcome(Ending.CANCELED, reason=attempt.reason)
        case _:
            return Outcome(Ending.RELEASED)


def _overdue(attempt: Attempt) -> str:
    if attempt.silent:
        return f"gave no sign of life for {attempt.silence} s"
    return f"took longer than {attempt.timeout} s"


def outcome_of(attempt: Attempt, error: BaseException) -> Outcome:
    """Turn whatever was raised into an outcome."""
    if isinstance(error, asyncio.CancelledError) and attempt.bench.is_dying():
        # It has not failed, and no end of it could be written.
        attempt.stop = Stop.FENCED
    if attempt.stop is not None:
        if attempt.task is not None and isinstance(error, asyncio.CancelledError):
            attempt.task.uncancel()
        return stopped(attempt)
    match error:
        case ExecutorUnavailable():
            return _not_begun(attempt, error)
        case Snooze():
            return Outcome(Ending.SNOOZED, wait=error.wait)
        case RetryAfter():
            return Outcome(Ending.FAILED, error, wait=error.wait)
        case Fail():
            return Outcome(Ending.FAILED, error, retryable=False)
        case JobCanceled():
            return Outcome(Ending.CANCELED, reason=reason_of(attempt, error.reason))
        case _:
            return Outcome(Ending.FAILED, error)


def _not_begun(attempt: Attempt, error: ExecutorUnavailable) -> Outcome:
    """Let a job come back that could not be begun: the executor's trouble is not the task's."""
    executor = "" if attempt.job_task is None else attempt.job_task.options_declared.executor
    attempt.bench.bus.emit(
        ExecutorTrouble(
            attempt.claim.id,
            attempt.claim.task,
            executor,
            attempt.node_id,
            str(error),
            BEGIN_AGAIN.total_seconds(),
        )
    )
    return Outcome(Ending.SNOOZED, wait=BEGIN_AGAIN)


def report(attempt: Attempt, outcome: Outcome, ends: Ends) -> None:
    """Decide what follows and hand it on to be written."""
    claim = attempt.claim
    now = attempt.bench.runtime.monotonic()
    lasted = attempt.lasted = now - attempt.started
    if attempt.completed or attempt.stop is Stop.FENCED:
        if attempt.completed:
            _tell_success(attempt, lasted)
        ends.drop(attempt)
        return
    plain = not claim.hooks & OTHER_HOOKS and not attempt.side_writes
    if outcome.ending is Ending.SUCCEEDED and plain:
        ends.complete(
            attempt,
            Completion(claim.id, claim.fence, claim.task, attempt.queue, lasted, attempt.result),
        )
        if attempt.bench.bus.wants(JobSucceeded) or attempt.bench.heard:
            _tell_success(attempt, lasted)
        return
    decision = _decide(attempt, outcome)
    ends.settle(attempt, settlement_of(attempt, outcome, decision, lasted))
    _tell(attempt, outcome, decision, lasted)


def _decide(attempt: Attempt, outcome: Outcome) -> Decision:
    """Decide what follows, in any case: a rule that raises must not lose the job."""
    number = attempt.claim.attempt
    bits = attempt.bench.runtime.random_bits(JITTER_BITS)
    try:
        return decide(outcome, number, _policy(attempt), bits)
    except Exception:  # noqa: BLE001  the user's back-off rule, or options that cannot be read
        return decide(outcome, number, replace(_declared_policy(attempt), backoff="fixed"), bits)


def _policy(attempt: Attempt) -> Retry:
    """Return the retry policy of the job: its own, else its task's."""
    if attempt.claim.options is not None:
        stored = read_options(attempt.claim.options)
        if stored.retry is not None:
            return merged(stored.retry.policy(), _declared_policy(attempt))
    return _declared_policy(attempt)


def _declared_policy(attempt: Attempt) -> Retry:
    return NO_RETRY if attempt.job_task is None else attempt.job_task.options_declared.retry


def settlement_of(
    attempt: Attempt, outcome: Outcome, decision: Decision, lasted: float
) -> Settlement:
    """Return what is to be written about the end of an attempt."""
    claim = attempt.claim
    succeeded = decision.state is State.SUCCEEDED
    return Settlement(
        id=claim.id,
        fence=claim.fence,
        task=claim.task,
        queue=attempt.queue,
        lasted=lasted,
        result=attempt.result if succeeded else None,
        state=decision.state,
        delay=None if decision.delay is None else decision.delay.total_seconds(),
        charged=decision.charged,
        kind=str(outcome.ending) if decision.charged else None,
        error=None if outcome.error is None else encode_error(attempt, outcome.error),
        reason=None if outcome.reason is None else storable(outcome.reason, MESSAGE_LIMIT),
    )


def as_failed_attempt(attempt: Attempt, error: StoreError) -> Settlement:
    """Return what is written instead of an end that the store refuses: an attempt that counts."""
    problem = StoreError(f"the job ran, but the store refused its end: {error}")
    outcome = Outcome(Ending.FAILED, problem)
    lasted = attempt.bench.runtime.monotonic() - attempt.started
    decision = _decide(attempt, outcome)
    # Listeners were to hear of another end.
    attempt.news = ()
    _tell(attempt, outcome, decision, lasted)
    return settlement_of(attempt, outcome, decision, lasted)


def tell_started(attempt: Attempt) -> None:
    """Tell of a start; the claim was committed before, so nobody has to wait for it."""
    bench, event = attempt.bench, JobStarted(*identity_of(attempt))
    bench.bus.emit(event)
    if bench.listeners is not None:
        bench.listeners.publish(event)


def _tell_success(attempt: Attempt, lasted: float) -> None:
    _say(attempt, JobSucceeded(*identity_of(attempt), lasted))


def tell_canceled(attempt: Attempt, reason: str | None) -> None:
    """Tell that a job is canceled which was to be tried again."""
    attempt.news = ()
    _say(attempt, JobWasCanceled(*identity_of(attempt), reason))


def _say(attempt: Attempt, event: object) -> None:
    """Tell the engine's own at once, and keep it for listeners until it is committed."""
    attempt.bench.bus.emit(event)
    if type(event) in attempt.bench.heard:
        attempt.news = (*attempt.news, event)


def identity_of(attempt: Attempt) -> tuple[UUID, str, str, int, UUID]:
    """Return the fields that all events about an attempt begin with."""
    claim = attempt.claim
    return claim.id, claim.task, attempt.queue, claim.attempt, attempt.node_id


def _tell(attempt: Attempt, outcome: Outcome, decision: Decision, lasted: float) -> None:
    """Emit the event that fits what follows."""
    claim, bench = attempt.claim, attempt.bench
    who = identity_of(attempt)
    delay = 0.0 if decision.delay is None else decision.delay.total_seconds()
    if outcome.ending is Ending.TIMED_OUT:
        limit = attempt.silence if attempt.silent else attempt.timeout
        _say(attempt, JobTimedOut(*who, limit or 0.0, attempt.silent))
    match decision.state, outcome.ending:
        case State.SUCCEEDED, _:
            if bench.bus.wants(JobSucceeded) or bench.heard:
                _tell_success(attempt, lasted)
        case State.FAILED, _:
            attempt.failure = describe_error(attempt, outcome.error)
            _say(attempt, JobDied(*who, attempt.failure))
        case State.CANCELED, _:
            _say(attempt, JobWasCanceled(*who, outcome.reason))
        case State.WAITING, _:
            _say(attempt, TaskUnknown(claim.id, claim.task, attempt.node_id))
        case _, Ending.SNOOZED:
            _say(attempt, JobSnoozed(*who, delay, outcome.reason))
        case _, Ending.FAILED | Ending.TIMED_OUT:
            _say(attempt, JobRetrying(*who, describe_error(attempt, outcome.error), delay))
