"""Refuses due times that cannot be right, wherever a caller may give one."""

from collections.abc import Callable
from datetime import datetime, timedelta
from typing import Final

from detent.errors import ConfigError
from detent.model.durations import Duration, parse_duration
from detent.model.moments import check_delay, check_moment

MAX_TIMEOUT: Final = timedelta(days=30)
# What a reader of logs would still call a moment.
MAX_LINGER: Final = timedelta(minutes=1)


def check_due(owner: str, delay: timedelta | None, at: datetime | None) -> None:
    """Refuse to be told twice when a job is due, or what no store can hold."""
    if delay is not None and at is not None:
        raise ConfigError(f"{owner}(delay=..., at=...): give one of them, not both")
    if delay is not None:
        check_length(owner, "delay", delay)
    if at is not None:
        _check(owner, "at", at, check_moment)


def read_expiry(value: object) -> timedelta | datetime | None:
    """Return when it is too late to begin, as a moment or as a time from the enqueue on."""
    if value is None:
        return None
    if isinstance(value, datetime):
        _check("options", "expires", value, check_moment)
        return value
    length = read_length("options", "expires", value)
    if not length:
        raise ConfigError(f"options(expires={value!r}): must be above 0")
    return length


def expiry(
    expires: timedelta | datetime,
    delay: timedelta | None,
    at: datetime | None,
    utcnow: Callable[[], datetime],
) -> datetime:
    """Return the moment when it is too late to begin a job that is enqueued now."""
    now = utcnow()
    moment = now + expires if isinstance(expires, timedelta) else expires
    if moment <= (at or now + (delay or timedelta(0))):
        raise ConfigError(
            f"options(expires={expires}): must be after the job is due, or it would never begin"
        )
    return moment


def read_length(owner: str, name: str, value: object) -> timedelta:
    """Return a length of time that a caller gave as a number of seconds, a text or a timedelta."""
    try:
        length = parse_duration(value)
        check_delay(length)
    except (TypeError, ValueError) as error:
        raise ConfigError(f"{owner}({name}={value!r}): {error}") from None
    return length


def check_length(owner: str, name: str, length: timedelta) -> None:
    """Refuse a time to wait, or to keep something, of more than some years."""
    _check(owner, name, length, check_delay)


def _check(owner: str, name: str, value: object, check: Callable[[object], None]) -> None:
    try:
        check(value)
    except (TypeError, ValueError) as error:
        raise ConfigError(f"{owner}({name}={value}): {error}") from None


def as_timeout(value: Duration | None, option: str = "timeout") -> timedelta | None:
    """Return how long something may take."""
    if value is None:
        return None
    timeout = _read(option, value)
    if not timedelta(0) < timeout <= MAX_TIMEOUT:
        raise ConfigError(f"{option} = {value!r}: must be above 0, at most {MAX_TIMEOUT.days} days")
    return timeout


def as_linger(value: Duration) -> timedelta:
    """Return how long to wait for more."""
    linger = _read("linger", value)
    if not timedelta(0) <= linger <= MAX_LINGER:
        raise ConfigError(f"linger = {value!r}: must be from 0 to {MAX_LINGER}")
    return linger


def _read(option: str, value: object) -> timedelta:
    try:
        return parse_duration(value)
    except ValueError as error:
        raise ConfigError(f"{option} = {value!r}: {error}") from None
