"""What a caller says wrong is refused at once, naming the option and the value."""

from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import uuid4

import pytest

from detent import App, ConfigError

app = App("memory://")
WRONG_TIMES: list[tuple[str, Any]] = [
    ("delay", "soon"),
    ("delay", timedelta.max),
    ("delay", timedelta(seconds=-1)),
    ("at", "tomorrow"),
    ("at", datetime(2030, 1, 1)),  # noqa: DTZ001  that is what is wrong with it
    ("at", datetime.max.replace(tzinfo=UTC)),  # PostgreSQL's driver makes infinity of it
    ("at", datetime.min.replace(tzinfo=UTC)),
]


@app.task(name="send")
async def send(to: str) -> None:
    """Do nothing."""


@pytest.mark.parametrize(
    "option, value",
    [
        *WRONG_TIMES,
        ("retry", 3),
        ("timeout", float("nan")),
        ("timeout", float("inf")),
        ("timeout", 0),
        ("timeout", True),
        ("timeout", "soon"),
        ("tags", "urgent"),
        ("params", [1]),
        ("key_ttl", "for ever"),
        ("key_ttl", timedelta(seconds=-1)),
        ("key_ttl", timedelta.max),
        ("on_conflict", "ignore"),
        ("priority", 9),
        ("queue", "a+b"),
    ],
)
def test_a_wrong_option_is_named_with_its_value(option: str, value: Any) -> None:
    options: dict[str, Any] = {option: value}
    with pytest.raises(ConfigError, match=option):
        send.options(**options)


@pytest.mark.parametrize("option, value", WRONG_TIMES)
async def test_a_job_is_rescheduled_with_the_same_care(option: str, value: Any) -> None:
    options: dict[str, Any] = {option: value}
    with pytest.raises(ConfigError, match=rf"^reschedule\({option}="):
        await app.jobs.reschedule(uuid4(), **options)


async def test_a_job_is_rescheduled_in_one_way() -> None:
    with pytest.raises(ConfigError, match="give one of them, not both"):
        await app.jobs.reschedule(uuid4(), delay=timedelta(1), at=datetime.now(UTC))


@pytest.mark.parametrize(
    "filter_, value",
    [
        ("state", "lost"),
        ("state", ["failed", "lost"]),
        ("since", datetime(2030, 1, 1)),  # noqa: DTZ001  that is what is wrong with it
        ("until", datetime(2030, 1, 1)),  # noqa: DTZ001  that is what is wrong with it
        ("limit", 0),
        ("limit", 1.5),
        ("limit", 1_001),
    ],
)
async def test_jobs_are_listed_with_the_same_care(filter_: str, value: Any) -> None:
    filters: dict[str, Any] = {filter_: value}
    with pytest.raises(ConfigError, match=f"^{filter_} = "):
        await app.jobs.list(**filters)


def test_a_task_is_declared_with_the_same_care() -> None:
    wrong: list[dict[str, Any]] = [
        {"timeout": True},
        {"tags": "urgent"},
        {"retry": 3},
        {"executor": "g p u"},
        {"queue": ""},
        {"color": "red"},
    ]
    for options in wrong:
        with pytest.raises(ConfigError, match=next(iter(options))):
            app.task(name="wrong", **options)(lambda: None)
