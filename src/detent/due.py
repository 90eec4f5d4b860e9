"""Refuses due times that cannot be right, wherever a caller may give one."""

from collections.abc import Callable
from datetime import datetime, timedelta

from detent.errors import ConfigError
from detent.model.moments import check_delay, check_moment


def check_due(owner: str, delay: timedelta | None, at: datetime | None) -> None:
    """Refuse to be told twice when a job is due, or what no store can hold."""
    if delay is not None and at is not None:
        raise ConfigError(f"{owner}(delay=..., at=...): give one of them, not both")
    if delay is not None:
        check_length(owner, "delay", delay)
    if at is not None:
        _check(owner, "at", at, check_moment)


def check_length(owner: str, name: str, length: timedelta) -> None:
    """Refuse a time to wait, or to keep something, of more than some years."""
    _check(owner, name, length, check_delay)


def _check(owner: str, name: str, value: object, check: Callable[[object], None]) -> None:
    try:
        check(value)
    except (TypeError, ValueError) as error:
        raise ConfigError(f"{owner}({name}={value}): {error}") from None
