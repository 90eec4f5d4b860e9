"""If these fail, a setting of schedules is misread, or one that loses schedules is taken."""

from datetime import timedelta

import pytest

from detent.config import Config, SchedulesConfig
from detent.errors import ConfigError


def test_settings_are_read_from_the_environment() -> None:
    environ = {
        "DETENT_SCHEDULES_GRACE": "forever",
        "DETENT_SCHEDULES_MISFIRE_THRESHOLD": "5m",
        "DETENT_SCHEDULES_POLL_INTERVAL": "3s",
        "DETENT_SCHEDULES_KEEP_SLOTS": "7d",
    }
    assert Config.load(environ=environ).schedules == SchedulesConfig(
        timedelta(minutes=5), None, timedelta(seconds=3), timedelta(days=7)
    )
    assert Config.load(environ={}).schedules.grace == timedelta(minutes=10)


@pytest.mark.parametrize(
    "key, value, words",
    [
        ("GRACE", "1m", r"\[schedules\] grace = 1m: must be long enough .* \(5m\) or longer"),
        ("GRACE", "soon", "grace = 'soon'"),
        ("MISFIRE_THRESHOLD", "0", "must be longer than 0"),
        ("MISFIRE_TRESHOLD", "5s", "did you mean DETENT_SCHEDULES_MISFIRE_THRESHOLD"),
    ],
)
def test_what_cannot_be_right_is_refused(key: str, value: str, words: str) -> None:
    with pytest.raises(ConfigError, match=words):
        Config.load(environ={f"DETENT_SCHEDULES_{key}": value})
