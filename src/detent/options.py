"""What one job says differently from its task, in the form in which it is stored with it."""

from datetime import datetime, timedelta

import msgspec

from detent.model.retry import Retry


class StoredRetry(msgspec.Struct, omit_defaults=True):
    """A retry policy that was given for one job."""

    max_attempts: int
    delay: float
    backoff: str
    max_delay: float
    jitter: bool

    def policy(self) -> Retry:
        """Return it as a policy."""
        return Retry(
            self.max_attempts,
            timedelta(seconds=self.delay),
            self.backoff,
            timedelta(seconds=self.max_delay),
            self.jitter,
        )


class StoredOptions(msgspec.Struct, omit_defaults=True):
    """The options of one job; unset ones are its task's."""

    timeout: float | None = None
    retry: StoredRetry | None = None
    schedule: str | None = None
    """The schedule that fired the job, and the slot for which it did."""
    slot: datetime | None = None
    sinks: dict[str, list[str]] | None = None
    """The sinks that are to hear of its end, and of which states; stores read it by SQL."""
    principal: str | None = None
    """In whose name it was enqueued: here, a claim brings it along."""
    expires: datetime | None = None
    """When it is too late to begin."""


_decoder = msgspec.json.Decoder(StoredOptions)


def read_options(data: bytes) -> StoredOptions:
    """Return stored options."""
    return _decoder.decode(data)


def write_options(
    timeout: timedelta | None,
    retry: Retry | None,
    principal: str | None = None,
    expires: datetime | None = None,
) -> bytes | None:
    """Return options to be stored, or None when nothing differs from the task."""
    if timeout is None and retry is None and principal is None and expires is None:
        return None
    stored = None
    if retry is not None:
        stored = StoredRetry(
            retry.max_attempts,
            retry.delay.total_seconds(),
            str(retry.backoff),
            retry.max_delay.total_seconds(),
            retry.jitter,
        )
    seconds = None if timeout is None else timeout.total_seconds()
    return msgspec.json.encode(StoredOptions(seconds, stored, principal=principal, expires=expires))


def watched_options(options: bytes | None, sinks: dict[str, list[str]]) -> bytes:
    """Return the options of a job whose end sinks are to hear of."""
    stored = StoredOptions() if options is None else read_options(options)
    stored.sinks = sinks
    return msgspec.json.encode(stored)
