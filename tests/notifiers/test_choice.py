"""If these fail, wake-ups go another way than the settings say, and jobs wait for polls."""

import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from detent import App
from detent.config import Config, StoreConfig, WakeupConfig
from detent.databases import open_store
from detent.errors import ConfigError
from detent.notifiers.nats import NatsNotifier
from detent.notifiers.none import NoNotifier
from detent.notifiers.redis import RedisNotifier
from detent.stores.memory import MemoryNotifier
from detent.stores.postgres import PostgresStore
from detent.stores.postgres.notifier import PostgresNotifier
from detent.stores.sqlite.notifier import SqliteNotifier

POSTGRES = "postgresql://localhost/jobs"
STORES = {"memory://": MemoryNotifier, "sqlite:///x.db": SqliteNotifier, POSTGRES: PostgresNotifier}
CARRIERS = {
    "none": NoNotifier,
    "redis://localhost": RedisNotifier,
    "rediss://:secret@localhost:6380/0": RedisNotifier,
    "valkey://localhost": RedisNotifier,
    "valkeys://localhost": RedisNotifier,
    "nats://localhost:4222": NatsNotifier,
    "tls://one,two": NatsNotifier,
}


def config(store: str, **wakeup: Any) -> Config:
    return Config(store=StoreConfig(url=store), wakeup=WakeupConfig(**wakeup))


@pytest.mark.parametrize("store, kind", STORES.items())
def test_a_store_carries_its_wake_ups_itself(store: str, kind: type[Any]) -> None:
    assert type(open_store(config(store))[1]) is kind


@pytest.mark.parametrize("store", STORES)
@pytest.mark.parametrize("url, kind", CARRIERS.items())
def test_a_url_names_what_carries_them_instead(store: str, url: str, kind: type[Any]) -> None:
    opened, notifier = open_store(config(store, url=url))
    assert type(notifier) is kind
    # What the store itself has to tell goes the same way.
    assert getattr(opened, "notifier", notifier) is notifier


def test_a_notifier_of_ones_own_comes_first(tmp_path: Path) -> None:
    own = MemoryNotifier()
    for store in STORES:
        opened, notifier = open_store(config(store, url="none"), own)
        assert notifier is own
        assert getattr(opened, "notifier", own) is own
    app = App(f"sqlite:///{tmp_path / 'jobs.db'}", notifier=own)
    assert app.store.notifier is own  # type: ignore[attr-defined]


def test_a_postgresql_url_is_the_way_round_a_pooler() -> None:
    store, notifier = open_store(config(POSTGRES, url="postgresql://direct/jobs"))
    assert isinstance(store, PostgresStore)
    assert isinstance(notifier, PostgresNotifier)
    assert notifier._way.address == replace(
        store.database.address, url="postgresql://direct/jobs", pool_size=1
    )


@pytest.mark.parametrize(
    "store, wakeup, message",
    [
        ("memory://", {"url": "kafka://one"}, "'kafka' cannot carry wake-ups here; known are"),
        ("sqlite:///x.db", {"url": POSTGRES}, "'postgresql' cannot carry wake-ups here"),
        ("memory://", {"url": "redis://:secret@host:port"}, r"\[wakeup\] url = .* as its port"),
    ],
)
def test_what_cannot_carry_them_is_refused(
    store: str, wakeup: dict[str, Any], message: str
) -> None:
    with pytest.raises(ConfigError, match=message) as refused:
        open_store(config(store, **wakeup))
    assert "secret" not in str(refused.value)


@pytest.mark.parametrize(
    "wakeup, message",
    [
        ({"url": "localhost"}, r'\[wakeup\] url = \'localhost\': must be "none" or a URL'),
        ({"url": 3}, r"\[wakeup\] url = 3: must be"),
        ({"channel": "a.b"}, r"\[wakeup\] channel = 'a.b': must be 1 to 100 of"),
        ({"triggers": "all"}, r"\[wakeup\] triggers = 'all': must be one of due, classic"),
    ],
)
def test_settings_that_make_no_sense_are_refused(wakeup: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        WakeupConfig(**wakeup)


@pytest.mark.parametrize("extra", ["redis", "nats"])
def test_a_missing_client_is_named(monkeypatch: pytest.MonkeyPatch, extra: str) -> None:
    for name in [name for name in sys.modules if name.partition(".")[0] == extra]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.delitem(sys.modules, f"detent.notifiers.{extra}", raising=False)
    monkeypatch.setitem(sys.modules, extra, None)
    with pytest.raises(ConfigError, match=rf"pip install 'detent\[{extra}\]'"):
        open_store(config("memory://", url=f"{extra}://localhost"))


@pytest.mark.parametrize(
    "settings, redis, nats",
    [
        ({}, "detent:detent:wake", "detent.detent.wake"),
        ({"schema": "other"}, "detent:other:wake", "detent.other.wake"),
        ({"channel": "shop-7"}, "detent:shop-7:wake", "detent.shop-7.wake"),
    ],
)
def test_schedulers_talk_on_channels_of_their_own(
    settings: dict[str, str], redis: str, nats: str
) -> None:
    store = StoreConfig(url="memory://", schema=settings.get("schema", "detent"))
    for url in ("redis://localhost", "nats://localhost"):
        wakeup = WakeupConfig(url=url, channel=settings.get("channel"))
        _, notifier = open_store(Config(store=store, wakeup=wakeup))
        if isinstance(notifier, RedisNotifier):
            assert notifier._channel == redis
        else:
            assert isinstance(notifier, NatsNotifier)
            assert notifier._subject == nats
