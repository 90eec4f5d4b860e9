"""How lines speak of jobs and numbers; shared by all of them."""

from collections.abc import Callable, Mapping
from typing import Any

Words = Callable[[Any], str]
Lines = Mapping[type, tuple[int, Words]]
"""For each event: how loudly it is said, and in which words."""


def job(event: Any) -> str:
    """Return a job as lines name it."""
    return f"job {event.job_id} ({event.task})"


def many(count: int, noun: str) -> str:
    """Return a number of things."""
    return f"{count} {noun}" if count == 1 else f"{count} {noun}s"
