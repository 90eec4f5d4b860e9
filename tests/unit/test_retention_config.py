"""If these fail, somebody's jobs are deleted by a rule that he did not write."""

import dataclasses
import pickle
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from detent.config import Config, RetentionConfig
from detent.config.rules import format_rule, read_rule
from detent.errors import ConfigError
from detent.model.retention import LONGEST, Action, Rule
from detent.model.state import State

DAY = timedelta(days=1)
Load = Callable[..., RetentionConfig]


@pytest.fixture
def load(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Load:
    monkeypatch.chdir(tmp_path)

    def load(text: str = "", **environ: str) -> RetentionConfig:
        (tmp_path / "detent.toml").write_text(text)
        return Config.load(environ=environ).retention

    return load


def test_by_default_everything_leaves_some_day(load: Load) -> None:
    rules = load().rules()
    assert {state: rule.usual for state, rule in rules.items()} == {
        State.SUCCEEDED: Rule(7 * DAY, Action.DELETE),
        State.FAILED: Rule(90 * DAY, Action.DELETE),
        State.CANCELED: Rule(7 * DAY, Action.DELETE),
    }
    assert load().archive_keep == 365 * DAY


def test_each_state_and_each_queue_can_have_its_own_rule(load: Load) -> None:
    rules = load(
        """
        [retention]
        succeeded = "36h"
        failed = { keep = "90d", action = "archive" }
        canceled = "forever"
        action = "delete"
        archive_keep = "forever"

        [retention.queues.mail]
        succeeded = "1d"
        failed = "10d"

        [retention.queues.audit]
        succeeded = "forever"
        failed = { keep = "1d", action = "delete" }
        canceled = "7d archive"
        """
    ).rules()
    succeeded, failed, canceled = (rules[state] for state in rules)
    assert succeeded.of("default") == Rule(1.5 * DAY, Action.DELETE)
    assert succeeded.of("mail") == Rule(DAY, Action.DELETE)
    assert succeeded.of("audit").keep is None
    assert failed.of("default") == Rule(90 * DAY, Action.ARCHIVE)
    assert failed.of("mail") == Rule(10 * DAY, Action.ARCHIVE), "the state says what happens"
    assert failed.of("audit") == Rule(DAY, Action.DELETE)
    assert canceled.of("mail").keep is None
    assert canceled.of("audit") == Rule(7 * DAY, Action.ARCHIVE)


def test_one_word_archives_everything(load: Load) -> None:
    rules = load('[retention]\naction = "archive"').rules()
    assert {rule.usual.action for rule in rules.values()} == {Action.ARCHIVE}


def test_rules_come_from_the_environment_too(load: Load) -> None:
    config = load(
        DETENT_RETENTION_SUCCEEDED="12h",
        DETENT_RETENTION_FAILED="90d archive",
        DETENT_RETENTION_ARCHIVE_KEEP="forever",
        DETENT_RETENTION_INTERVAL="30s",
        DETENT_RETENTION_PAGE="50",
    )
    assert config.succeeded == Rule(DAY / 2)
    assert config.failed == Rule(90 * DAY, Action.ARCHIVE)
    assert config.archive_keep is None
    assert (config.interval, config.page) == (timedelta(seconds=30), 50)


def test_rules_are_given_in_python_as_well() -> None:
    given: dict[str, Any] = {"succeeded": DAY, "failed": Rule(None), "canceled": "2h 30m delete"}
    config = RetentionConfig(**given, queues={"mail": {State.FAILED: Rule(DAY)}})
    assert config.succeeded == Rule(DAY)
    assert config.failed == Rule(None)
    assert config.canceled == Rule(timedelta(minutes=150), Action.DELETE)
    assert config.rules()[State.FAILED].of("mail") == Rule(DAY, Action.DELETE)
    assert pickle.loads(pickle.dumps(config)) == config
    assert dataclasses.replace(config, page=10).succeeded == Rule(DAY)


@pytest.mark.parametrize(
    "text, words",
    [
        ('failed = "90x"', "[retention] failed = '90x': must be \"forever\" or a duration such as"),
        ('failed = "-1d"', "[retention] failed = '-1d': must be \"forever\" or a duration"),
        ("failed = true", '[retention] failed = True: must be "forever" or a duration'),
        ("failed = []", '[retention] failed = []: must be "forever" or a duration'),
        ('failed = "40000d"', "[retention] failed = '40000d': must be \"forever\" or from 0 to"),
        ('failed = "90d archvie"', '"90d archive" or { keep = "90d", action = "archive" }'),
        ('failed = "forever archive"', "what stays for ever needs no action: leave out 'archive'"),
        ('failed = { kep = "1d" }', "kep: unknown key; did you mean keep?"),
        ('failed = { action = "archive" }', 'has no keep: write { keep = "90d"'),
        ('failed = { keep = "1d", action = "drop" }', "must be one of delete, archive"),
        ('action = "drop"', "[retention] action = 'drop': must be one of delete, archive"),
        ('suceeded = "1d"', "[retention] suceeded: unknown key; did you mean [retention] succeed"),
        ('completed = "1d"', "completed: unknown key; did you mean [retention] succeeded?"),
        ('cancelled = "1d"', "cancelled: unknown key; did you mean [retention] canceled?"),
        ("page = 0", "[retention] page = 0: must be a whole number from 1 to 10,000"),
        ('interval = "0s"', "[retention] interval = '0s': must be longer than 0"),
        ('[retention.queues]\nmail = "1d"', "mail = '1d': must be a table"),
        (
            '[retention.queues.mail]\nsucceded = "1d"',
            "mail.succeded: unknown key; did you mean succeeded?",
        ),
        (
            "[retention.queues.mail]\nrunning = 1",
            "mail.running: unknown key; the keys are succeeded, failed, canceled",
        ),
        ('[retention.queues.mail]\nfailed = "x"', "mail.failed = 'x': must be \"forever\" or"),
        ('[retention.queues."a b"]\nfailed = "1d"', "the queue 'a b': must be 1 to 100 of"),
    ],
)
def test_a_mistake_is_told_with_its_key_and_value(load: Load, text: str, words: str) -> None:
    with pytest.raises(ConfigError) as caught:
        load(text if text.startswith("[retention.") else f"[retention]\n{text}")
    assert words in str(caught.value)
    assert "\n" not in str(caught.value)


def test_queues_cannot_come_from_a_variable(load: Load) -> None:
    with pytest.raises(ConfigError, match=r"\[retention\.queues\.mail\]"):
        load(DETENT_RETENTION_QUEUES="mail=1d")


@given(st.builds(Rule, st.timedeltas(timedelta(0), LONGEST), st.none() | st.sampled_from(Action)))
def test_a_rule_is_read_as_it_is_written(rule: Rule) -> None:
    assert rule.keep is not None
    whole = dataclasses.replace(rule, keep=timedelta(seconds=int(rule.keep.total_seconds())))
    assert read_rule(format_rule(whole)) == whole
    assert read_rule(format_rule(Rule(None))) == Rule(None)
