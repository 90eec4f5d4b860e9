"""Opens what a job holds before it runs, and readies the key for what it will come to."""

from datetime import timedelta
from typing import Any, Final

from detent._engine.attempt import Attempt
from detent.errors import KeyMissing, KeyUnavailable, SealBroken, SealTooNew
from detent.events import SealTrouble
from detent.model.envelope import is_sealed, read_envelope
from detent.model.outcome import Ending, Outcome
from detent.spi.sealing import Surface
from detent.tasks import Task

# After this long a job comes back that could not be opened; another node may have the key.
OPEN_AGAIN: Final = timedelta(seconds=30)


async def unseal(attempt: Attempt, task: Task[..., Any], args: bytes) -> bytes | Outcome:
    """Return the arguments in the clear, or the outcome of an attempt that cannot have them.

    The key for its result and its error is fetched here too: when they are there to be sealed,
    nobody has to be waited for any more.
    """
    try:
        return await _opened(attempt, task, args)
    except (KeyUnavailable, KeyMissing, SealTooNew) as error:
        delay = OPEN_AGAIN.total_seconds()
        attempt.bench.bus.emit(
            SealTrouble(attempt.job_id, attempt.task_name, attempt.node_id, str(error), delay)
        )
        return Outcome(Ending.SNOOZED, wait=OPEN_AGAIN)
    except SealBroken as error:
        return Outcome(Ending.FAILED, error, retryable=False)


async def _opened(attempt: Attempt, task: Task[..., Any], args: bytes) -> bytes:
    sealing, job_id, params = attempt.bench.sealing, attempt.job_id, attempt.claim.params
    if sealing is None:
        _refuse(args)
        return args
    seals = is_sealed(args) or sealing.covers(task.options_declared.encrypted)
    if is_sealed(args):
        args = await sealing.opened(Surface.ARGS, job_id, args)
    if params is not None and is_sealed(params):
        attempt.opened_params = await sealing.opened(Surface.PARAMS, job_id, params)
    # Last: what keeps a value from being opened is no secret, and is stored for all to read.
    attempt.sealer = await sealing.sealer() if seals else None
    return args


def _refuse(args: bytes) -> None:
    """Raise what keeps a node without any keys from running a job whose arguments are sealed."""
    try:
        envelope = read_envelope(args)
    except ValueError as error:
        raise SealBroken(f"the encrypted arguments cannot be opened: {error}") from error
    if not envelope.head:
        raise SealTooNew(f"it is encrypted in version {envelope.version}, and no keys are set")
    raise KeyMissing(envelope.key_id)
