"""What a caller says wrong is refused at once, naming the option and the value."""

from datetime import datetime, timedelta
from typing import Any

import pytest

from detent import App, ConfigError

app = App("memory://")


@app.task(name="send")
async def send(to: str) -> None:
    """Do nothing."""


@pytest.mark.parametrize(
    "option, value",
    [
        ("delay", 5),
        ("delay", timedelta.max),
        ("delay", timedelta(seconds=-1)),
        ("at", "tomorrow"),
        ("at", datetime(2030, 1, 1)),  # noqa: DTZ001  that is what is wrong with it
        ("retry", 3),
        ("timeout", float("nan")),
        ("timeout", float("inf")),
        ("timeout", 0),
        ("timeout", True),
        ("timeout", "5s"),
        ("tags", "urgent"),
        ("params", [1]),
        ("key_ttl", 60),
        ("key_ttl", timedelta(seconds=-1)),
        ("on_conflict", "ignore"),
        ("priority", 9),
        ("queue", "a+b"),
    ],
)
def test_a_wrong_option_is_named_with_its_value(option: str, value: Any) -> None:
    options: dict[str, Any] = {option: value}
    with pytest.raises(ConfigError, match=option):
        send.options(**options)


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
            app.task(**options)(lambda: None)
