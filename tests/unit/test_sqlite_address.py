"""If these fail, a URL leads to another file than its author meant, or to a riddle."""

from pathlib import Path

import pytest

from detent.config import Config
from detent.databases import migration_script, open_store
from detent.errors import ConfigError
from detent.stores.sqlite import SqliteStore
from detent.stores.sqlite.address import path_of


def test_three_slashes_are_relative_and_four_absolute(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert path_of("sqlite:///jobs.db") == str(tmp_path / "jobs.db")
    assert path_of("sqlite:///data/jobs.db") == str(tmp_path / "data/jobs.db")
    assert path_of("sqlite:////var/lib/jobs.db") == "/var/lib/jobs.db"
    assert path_of("sqlite:///my%20jobs%3F.db") == str(tmp_path / "my jobs?.db")


def test_a_relative_path_stays_where_it_was_when_the_program_moves(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    store, _ = open_store(Config.load("sqlite:///jobs.db"))
    monkeypatch.chdir("/")
    assert isinstance(store, SqliteStore)
    assert store.database.path == str(tmp_path / "jobs.db")


@pytest.mark.parametrize(
    "url, words",
    [
        ("sqlite://", "memory://"),
        ("sqlite:///", "memory://"),
        ("sqlite:///:memory:", "memory://"),
        ("sqlite://:memory:", "memory://"),
        ("sqlite://jobs.db", "too few slashes"),
        ("sqlite:jobs.db", "is no URL of a file"),
        ("sqlite:///jobs.db?mode=ro", "takes no options"),
        ("sqlite:///jobs.db?timeout=5&mode=ro", "takes no options"),
        ("sqlite:///jobs.db#main", "takes no options"),
        ("sqlite:////tmp/", "names a directory"),
        ("sqlite:////tmp", "names a directory"),
        ("sqlite:///a%00b", "NUL"),
    ],
)
def test_a_url_that_cannot_be_right_says_why(url: str, words: str) -> None:
    with pytest.raises(ConfigError) as refused:
        open_store(Config.load(url))
    assert words in str(refused.value)
    assert str(refused.value).startswith(f"[store] url = {url!r}: ")
    assert "\n" not in str(refused.value)


def test_sqlite_has_no_schemas() -> None:
    config = Config.load("sqlite:///jobs.db", environ={"DETENT_STORE_SCHEMA": "other"})
    for asked in (open_store, migration_script):
        with pytest.raises(ConfigError, match="schema = 'other': SQLite has no schemas"):
            asked(config)


def test_without_any_settings_jobs_live_in_a_file_here(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("DETENT_URL", raising=False)
    store, notifier = open_store(Config.load())
    assert isinstance(store, SqliteStore)
    assert notifier is store.notifier
    assert store.database.path == str(tmp_path / "detent.db")
    assert not (tmp_path / "detent.db").exists(), "nothing is opened before it is needed"
