"""Tells whether an idempotency key is used again for the same call, without reading the first one.

The digest of the arguments stands beside the key. Where arguments are encrypted it is sealed as
they are: few values would be found by trying, otherwise.
"""

from dataclasses import replace
from typing import Any
from uuid import UUID

from detent.errors import KeyMismatch, SealError
from detent.model.envelope import is_sealed
from detent.model.job import Keys, NewJob, Placed
from detent.protection import Protection
from detent.spi.sealing import Sealer, Surface
from detent.tasks import BoundCall


async def admit(
    protection: Protection, call: BoundCall[Any], job: NewJob, keys: Keys | None
) -> tuple[NewJob, Keys | None]:
    """Return a job and its keys as they may be stored, or raise as `Protection.admit` does."""
    encrypted = call.task.options_declared.encrypted
    job = await protection.admit(job, encrypted)
    sealing = protection.sealing_for(encrypted)
    if keys is not None and keys.digest is not None and sealing is not None:
        keys = _sealed(keys, job.id, await sealing.sealer())
    return job, keys


def admit_sync(
    protection: Protection, call: BoundCall[Any], job: NewJob, keys: Keys | None
) -> tuple[NewJob, Keys | None]:
    """Do the same for blocking code, on its own thread if nobody has to be waited for."""
    encrypted = call.task.options_declared.encrypted
    if keys is None or keys.digest is None:
        return protection.admit_sync(job, encrypted), keys
    sealing = protection.sealing_for(encrypted)
    sealer = None if sealing is None else sealing.ready()
    if protection.access is None and (sealing is None or sealer is not None):
        job = protection.admit_sync(job, encrypted)
        return job, keys if sealer is None else _sealed(keys, job.id, sealer)
    admitted: tuple[NewJob, Keys | None] = protection.call(admit(protection, call, job, keys))
    return admitted


def _sealed(keys: Keys, job_id: UUID, sealer: Sealer) -> Keys:
    assert keys.digest is not None
    return replace(keys, digest=sealer.seal(Surface.DIGEST, job_id, keys.digest))


async def compare(
    protection: Protection, call: BoundCall[Any], keys: Keys | None, placed: Placed
) -> None:
    """Raise `KeyMismatch` if a key stands for a job with other arguments than these."""
    kept = placed.digest
    if kept is not None and is_sealed(kept):
        try:
            kept = await protection.views.opened(Surface.DIGEST, placed.id, kept)
        except SealError:
            return  # The key is gone, and with it what could be compared.
    _check(call, keys, placed._replace(digest=kept))


def compare_sync(
    protection: Protection, call: BoundCall[Any], keys: Keys | None, placed: Placed
) -> None:
    """Do the same for blocking code."""
    if is_sealed(placed.digest):
        protection.call(compare(protection, call, keys, placed))
    else:
        _check(call, keys, placed)


def _check(call: BoundCall[Any], keys: Keys | None, placed: Placed) -> None:
    """Compare what is kept with what was given. A key of an older version has nothing kept."""
    if placed.digest is None or keys is None or keys.idempotency is None:
        return
    if placed.digest != keys.digest and call.options.on_key_mismatch == "raise":
        raise KeyMismatch(keys.idempotency, placed.id, call.task.name)
