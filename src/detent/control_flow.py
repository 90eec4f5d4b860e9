"""What a task raises to say what should follow: none of these is an error."""

from datetime import timedelta

from detent.model.durations import Duration, parse_duration


class Snooze(Exception):
    """Run me again later; this was not an attempt."""

    def __init__(self, wait: Duration) -> None:
        super().__init__(f"snoozed for {wait}")
        self.wait = _checked("Snooze", wait)


class Fail(Exception):
    """This cannot succeed: do not retry."""


class RetryAfter(Exception):
    """This attempt failed; try again after this wait, if attempts are left."""

    def __init__(self, wait: Duration, message: str = "") -> None:
        super().__init__(message or f"asked to be retried after {wait}")
        self.wait = _checked("RetryAfter", wait)


def _checked(name: str, wait: Duration) -> timedelta:
    try:
        return parse_duration(wait)
    except ValueError as error:
        raise TypeError(f"{name}({wait!r}): {error}") from None
