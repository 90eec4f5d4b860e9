"""If these fail, a mistake in somebody's settings starts a node that does something else."""

import dataclasses
import pickle
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from detent.config import (
    SECTIONS,
    ClusterConfig,
    Config,
    LimitsConfig,
    NodeConfig,
    PollingConfig,
    StoreConfig,
    WakeupConfig,
    check_name,
    format_duration,
    parse_duration,
    redact,
)
from detent.config.sources import Raw, from_environment
from detent.errors import ConfigError

Load = Callable[..., Config]


@pytest.fixture
def load(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Load:
    """Load a configuration in an empty directory, from the text of a file and variables."""
    monkeypatch.chdir(tmp_path)

    def load(text: str = "", url: str | None = None, **environ: str) -> Config:
        if text:
            (tmp_path / "detent.toml").write_text(text)
        return Config.load(url, environ=environ)

    return load


def refused(load: Callable[[], object]) -> str:
    with pytest.raises(ConfigError) as caught:
        load()
    return str(caught.value)


# ---------------------------------------------------------------- defaults and precedence


def test_without_any_settings_the_defaults_of_the_design_hold(load: Load) -> None:
    config = load()
    assert config == Config()
    assert config.store.url == "sqlite:///detent.db"
    assert config.store.priority_boost_interval == timedelta(minutes=15)
    assert config.node.slots() == {"default": 100}
    assert config.cluster.lease == timedelta(seconds=15)
    assert config.limits.max_payload == 1024 * 1024
    assert config.wakeup.enabled


def test_argument_beats_environment_beats_file_beats_default(load: Load) -> None:
    text = '[store]\nurl = "memory://file"\npool_size = 5\nschema = "file"'
    assert load(text).store.url == "memory://file"
    config = load(text, "memory://argument", DETENT_URL="memory://env", DETENT_STORE_SCHEMA="env")
    assert config.store.url == "memory://argument"
    assert config.store.schema == "env"
    assert config.store.pool_size == 5
    assert config.store.timeout == timedelta(seconds=30)


def test_the_short_variable_for_the_url_beats_the_long_one(load: Load) -> None:
    config = load(DETENT_URL="memory://short", DETENT_STORE_URL="memory://long")
    assert config.store.url == "memory://short"


def test_a_url_may_name_a_driver_as_those_of_sqlalchemy_do(load: Load) -> None:
    assert load(url="postgresql+psycopg://a:b@h/d").store.url == "postgresql://a:b@h/d"
    assert load(url="sqlite+aiosqlite:///jobs.db").store.url == "sqlite:///jobs.db"
    assert load(url="postgresql://h/a+b:c").store.url == "postgresql://h/a+b:c"


@pytest.mark.parametrize(
    "url",
    [
        "postgresql://localhost:none/shop",
        "postgresql://localhost:99999/shop",
        "postgresql://db1:5432,db2:x/shop",
        "postgresql://[::1]:x/shop",
        "postgresql://ada:s3/cret@localhost/shop",
        "postgresql://ada:s3#cret@localhost/shop",
    ],
)
def test_a_url_has_ports_that_are_numbers(load: Load, url: str) -> None:
    """As one has not whose password holds what must be escaped."""
    message = refused(lambda: load(url=url))
    assert "must have a number from 1 to 65535 as its port; in a password" in message
    assert "s3" not in message


@pytest.mark.parametrize(
    "url",
    [
        "postgresql://ada:s3%2Fcret@[::1]:5432,db2,db3:5433/shop?sslmode=disable",
        "postgresql://%2Fvar%2Frun%2Fpostgresql/shop",
        "postgresql://localhost:/shop",
        "postgresql:///shop?host=/var/run:5",
        "sqlite:///a:b/jobs.db",
        "memory://one",
    ],
)
def test_a_url_may_have_no_port_or_many(load: Load, url: str) -> None:
    assert load(url=url).store.url == url


def test_an_empty_variable_is_as_good_as_none(load: Load) -> None:
    assert load(DETENT_URL="", DETENT_NODE_CONCURRENCY="") == Config()


def test_every_setting_can_come_from_the_environment(load: Load) -> None:
    config = load(
        DETENT_STORE_POOLER="false",
        DETENT_STORE_AUTO_MIGRATE="yes",
        DETENT_NODE_NAME="web-1",
        DETENT_NODE_ROLES="worker, gateway",
        DETENT_NODE_CAPABILITIES="gpu,ml",
        DETENT_NODE_QUEUES="mail=20, default=50",
        DETENT_POLLING_MINIMUM="250ms",
        DETENT_WAKEUP_ENABLED="off",
        DETENT_CLUSTER_LEASE="1m",
        DETENT_LIMITS_MAX_TAGS="3",
    )
    assert config.store.pooler is False
    assert config.store.auto_migrate
    assert config.node.name == "web-1"
    assert config.node.roles == ("worker", "gateway")
    assert config.node.capabilities == ("gpu", "ml")
    assert config.node.slots() == {"mail": 20, "default": 50}
    assert config.polling.minimum == timedelta(milliseconds=250)
    assert not config.wakeup.enabled
    assert config.cluster.lease == timedelta(minutes=1)
    assert config.limits.max_tags == 3


@pytest.mark.parametrize(
    "section, key", [(name, key) for name, kind in SECTIONS.items() for key in kind.names()]
)
def test_every_setting_has_its_variable(section: str, key: str) -> None:
    valid = {name: kind.names() for name, kind in SECTIONS.items()}
    name = f"DETENT_{section}_{key}".upper()
    assert list(from_environment({name: "x"}, valid)) == [Raw(section, key, "x", name)]


def test_the_environment_replaces_a_table_of_the_file_as_a_whole(load: Load) -> None:
    config = load("[node.queues]\nmail = 1\nbulk = 2", DETENT_NODE_QUEUES="default=3")
    assert config.node.slots() == {"default": 3}


def test_a_named_file_must_exist(tmp_path: Path) -> None:
    message = refused(lambda: Config.load(path=tmp_path / "no.toml", environ={}))
    assert "no.toml: cannot be read" in message


def test_a_named_file_is_used_instead_of_the_one_in_this_directory(
    tmp_path: Path, load: Load
) -> None:
    other = tmp_path / "other.toml"
    other.write_text("[node]\nthreads = 7")
    load("[node]\nthreads = 3")
    assert Config.load(path=other, environ={}).node.threads == 7


@pytest.mark.parametrize("content", [b"[node\n", b"\xff\xfe"])
def test_a_broken_file_is_named(tmp_path: Path, content: bytes) -> None:
    broken = tmp_path / "broken.toml"
    broken.write_bytes(content)
    assert "broken.toml: " in refused(lambda: Config.load(path=broken, environ={}))


# ---------------------------------------------------------------- variables in the file


def test_variables_are_put_into_the_strings_of_the_file(load: Load) -> None:
    text = """
    [store]
    url = "postgresql://app:${PASSWORD}@${HOST:-localhost}/jobs"
    pool_size = "${POOL:-7}"
    [node]
    capabilities = ["${KIND:-cpu}"]
    queues = { mail = "${MAIL_SLOTS:-20}" }
    """
    config = load(text, PASSWORD="secret", KIND="gpu")
    assert config.store.url == "postgresql://app:secret@localhost/jobs"
    assert config.store.pool_size == 7
    assert config.node.capabilities == ("gpu",)
    assert config.node.queues == {"mail": 20}


def test_a_missing_variable_is_named_with_its_key(load: Load) -> None:
    message = refused(lambda: load('[store]\nurl = "${NOWHERE}"'))
    assert message == (
        "detent.toml: [store] url: the variable NOWHERE is not set; "
        "set it or write ${NOWHERE:-default}"
    )


@pytest.mark.parametrize("text", ["${", "${OPEN", "${}", "${1}", "${A-b}"])
def test_a_variable_that_is_none_is_not_passed_on(load: Load, text: str) -> None:
    message = refused(lambda: load(f'[node]\nname = "{text}"', OPEN="x", A="x"))
    assert "[node] name" in message
    assert "is no variable" in message


def test_values_of_the_environment_are_taken_as_they_are(load: Load) -> None:
    assert load(DETENT_NODE_NAME="${HOST}").node.name == "${HOST}"


# ---------------------------------------------------------------- presets


def test_the_classic_preset_has_ratchets_rhythm(load: Load) -> None:
    polling = load('[polling]\npreset = "classic"').polling
    assert polling == PollingConfig.classic()
    assert polling.maximum == polling.deep_idle / 2 == timedelta(seconds=30)
    assert polling.deep_idle_after == timedelta(minutes=5)
    assert polling.burst_polls == 5


def test_a_preset_is_a_basis_wherever_it_stands(load: Load) -> None:
    polling = load('[polling]\nmaximum = "5s"', DETENT_POLLING_PRESET="classic").polling
    assert polling == dataclasses.replace(PollingConfig.classic(), maximum=timedelta(seconds=5))


def test_an_unknown_preset_is_refused(load: Load) -> None:
    message = refused(lambda: load('[polling]\npreset = "fast"'))
    assert message == (
        "[polling] preset = 'fast': must be one of default, classic (from detent.toml)"
    )


# ---------------------------------------------------------------- wrong values


@pytest.mark.parametrize(
    "section, key, value",
    [
        (StoreConfig, "url", "postgres"),
        (StoreConfig, "url", ""),
        (StoreConfig, "url", None),
        (StoreConfig, "schema", "Robert'; --"),
        (StoreConfig, "schema", "1st"),
        (StoreConfig, "schema", "s" * 49),
        (StoreConfig, "pool_size", 0),
        (StoreConfig, "pool_size", True),
        (StoreConfig, "pool_size", 2.5),
        (StoreConfig, "pooler", "maybe"),
        (StoreConfig, "priority_boost_interval", "-1s"),
        (StoreConfig, "timeout", 0),
        (StoreConfig, "auto_migrate", None),
        (NodeConfig, "name", "two words"),
        (NodeConfig, "name", ""),
        (NodeConfig, "roles", ()),
        (NodeConfig, "roles", ("boss",)),
        (NodeConfig, "roles", 3),
        (NodeConfig, "capabilities", ("a+b",)),
        (NodeConfig, "queues", {"": 1}),
        (NodeConfig, "queues", {"mail+gpu": 1}),
        (NodeConfig, "queues", {"q" * 101: 1}),
        (NodeConfig, "queues", {"mail": 0}),
        (NodeConfig, "queues", {"mail": 100_001}),
        (NodeConfig, "queues", {"mail": True}),
        (NodeConfig, "queues", ["mail"]),
        (NodeConfig, "queues", "mail"),
        (NodeConfig, "queues", "mail=1,mail=2"),
        (NodeConfig, "queues", "mail=many"),
        (NodeConfig, "concurrency", 0),
        (NodeConfig, "claim_batch", 5001),
        (NodeConfig, "claim_batch", "٣"),  # a digit, but not one of ours
        (NodeConfig, "drain_timeout", "soon"),
        (NodeConfig, "signal_interval", timedelta(0)),
        (PollingConfig, "window", 0),
        (WakeupConfig, "enabled", "perhaps"),
        (ClusterConfig, "heartbeat_interval", float("nan")),
        (ClusterConfig, "heartbeat_interval", "99999999999d"),
        (LimitsConfig, "max_key", "long"),
    ],
)
def test_a_section_cannot_be_made_wrong(section: type[Any], key: str, value: object) -> None:
    message = refused(lambda: section(**{key: value}))
    assert message.startswith(f"[{section.section}] {key} = {value!r}: ")
    assert len(message) > len(f"[{section.section}] {key} = {value!r}: ")


def test_a_wrong_value_says_where_it_stands_and_what_is_valid(load: Load) -> None:
    assert refused(lambda: load(DETENT_NODE_CONCURRENCY="many")) == (
        "[node] concurrency = 'many': must be a whole number from 1 to 100,000 "
        "(from DETENT_NODE_CONCURRENCY)"
    )
    assert refused(lambda: load('[cluster]\nlease = "15 sec"')) == (
        "[cluster] lease = '15 sec': must be a duration such as "
        '"250ms", "5s", "15m", "2h" or "1d" (from detent.toml)'
    )


def test_a_lease_that_nobody_set_grows_with_the_interval() -> None:
    assert ClusterConfig(timedelta(seconds=20)).lease == timedelta(minutes=1)
    assert ClusterConfig(timedelta(seconds=1)).lease == timedelta(seconds=15)


def test_a_lease_survives_two_lost_heartbeats() -> None:
    message = refused(lambda: ClusterConfig(lease=timedelta(seconds=14)))
    assert message == "[cluster] lease = 14s: must be 3 heartbeat intervals (15s) or longer"
    assert ClusterConfig(timedelta(seconds=1), timedelta(seconds=3)).lease == timedelta(seconds=3)


def test_polling_intervals_grow() -> None:
    assert "minimum (2s)" in refused(lambda: PollingConfig(maximum=timedelta(seconds=1)))
    assert "maximum (10s)" in refused(lambda: PollingConfig(deep_idle=timedelta(seconds=9)))


def test_zero_switches_off_what_may_be_off() -> None:
    assert StoreConfig(priority_boost_interval=timedelta(0)).priority_boost_interval == timedelta(0)
    assert NodeConfig(drain_timeout=timedelta(0)).drain_timeout == timedelta(0)


def test_a_config_holds_sections_and_nothing_else() -> None:
    wrong: Any = {"url": "memory://"}
    assert "must be a StoreConfig" in refused(lambda: Config(store=wrong))


@pytest.mark.parametrize(
    "url, shown",
    [
        ("postgresql://ada:s3cr:t@x@db/jobs", "postgresql://ada:***@db/jobs"),
        ("postgresql://ada@db/jobs", "postgresql://ada@db/jobs"),
        ("postgresql:///jobs?user=ada&password=s3cret&x=1", None),
        ("sqlite:///detent.db", "sqlite:///detent.db"),
    ],
)
def test_no_message_shows_a_password(url: str, shown: str | None) -> None:
    assert redact(url) == (shown or "postgresql:///jobs?user=ada&password=***&x=1")
    assert "s3c" not in refused(lambda: StoreConfig(url=url + " "))
    assert "s3c" not in repr(Config(store=StoreConfig(url=url)))


def test_a_config_can_be_compared_hashed_copied_and_sent() -> None:
    config = Config(node=NodeConfig(queues={"mail": 2}))
    assert pickle.loads(pickle.dumps(config)) == config
    assert len({config, Config(node=NodeConfig(queues={"mail": 2}))}) == 1
    assert dataclasses.asdict(config)["node"]["queues"] == {"mail": 2}


def test_slots_are_a_copy() -> None:
    node = NodeConfig(queues={"mail": 2})
    node.slots()["mail"] = 9
    assert node.slots() == {"mail": 2}


# ---------------------------------------------------------------- unknown keys


@pytest.mark.parametrize(
    "text, meant",
    [
        ("[node]\nconcurency = 1", "[node] concurrency"),
        ("[node]\nworker_count = 1", "[node] concurrency"),
        ("[node]\nmax_workers = 1", "[node] concurrency"),
        ("[node]\npool_size = 1", "[node] concurrency"),
        ("[pool]\nsize = 1", "[node] concurrency"),
        ("[worker]\nmax_concurrent = 1", "[node] concurrency"),
        ("[node]\nbatch_size = 1", "[node] claim_batch"),
        ("[node]\nprefetch = 1", "[node] claim_batch"),
        ("[node]\nworker_capabilities = []", "[node] capabilities"),
        ("[node]\npoll-interval-ms = 1", "[polling] minimum"),
        ("[polling]\npollIntervalSeconds = 1", "[polling] minimum"),
        ("[polling]\nmaximun = 1", "[polling] maximum"),
        ("[cluster]\nheartbeat_timeout = 1", "[cluster] lease"),
        ("[cluster]\ndead_threshold = '15s'", "[cluster] lease"),
        ("[cluster]\nheartbeat-interval-ms = 5000", "[cluster] heartbeat_interval"),
        ("[store]\nlease = 1", "[cluster] lease"),
        ("[store]\ndatabase_url = 'x'", "[store] url"),
        ("[database]\nurl = 'x'", "[store] url"),
        ("[database]\npool_size = 5", "[store] pool_size"),
        ("database_url = 'x'", "[store] url"),
        ("url = 'x'", "[store] url"),
    ],
)
def test_an_unknown_key_is_refused_with_the_right_one(load: Load, text: str, meant: str) -> None:
    message = refused(lambda: load(text))
    assert message.startswith("detent.toml: ")
    assert message.endswith(f"unknown key; did you mean {meant}?")


def test_a_key_unlike_any_other_gets_the_list(load: Load) -> None:
    message = refused(lambda: load("[cluster]\nzzz = 1"))
    assert message == (
        "detent.toml: [cluster] zzz: unknown key; "
        "the keys are heartbeat_interval, lease, skew_warning, max_crashes, sweep_interval, "
        "forget_after, leader_check"
    )


def test_an_unknown_section_is_refused(load: Load) -> None:
    assert refused(lambda: load("[nodes]\nzzz = 1")).endswith("did you mean [node]?")
    assert "the sections are store, node, polling" in refused(lambda: load("[zzz]\nzzz = 1"))
    assert "node must be a table" in refused(lambda: load("node = 3"))


@pytest.mark.parametrize(
    "name, meant",
    [
        ("DETENT_NODE_CONCURENCY", "DETENT_NODE_CONCURRENCY"),
        ("DETENT_NODE_POLL_INTERVAL_MS", "DETENT_POLLING_MINIMUM"),
        ("DETENT_CONCURRENCY", "DETENT_NODE_CONCURRENCY"),
        ("DETENT_DATABASE_URL", "DETENT_URL"),
        ("DETENT_ULR", "DETENT_URL"),
        ("DETENT_NDOE_THREADS", "DETENT_NODE_THREADS"),
        ("DETENT_RATE_LIMIT_MOED", "DETENT_RATE_LIMIT_MODE"),
    ],
)
def test_a_mistaken_variable_is_not_ignored(load: Load, name: str, meant: str) -> None:
    assert refused(lambda: load(**{name: "1"})) == f"{name}: unknown key; did you mean {meant}?"


def test_variables_of_others_are_ignored(load: Load) -> None:
    kubernetes = {
        "DETENT_NODE_SERVICE_HOST": "10.0.0.1",
        "DETENT_NODE_SERVICE_PORT_HTTP": "80",
        "DETENT_NODE_PORT": "tcp://10.0.0.1:80",
        "DETENT_NODE_PORT_80_TCP_ADDR": "10.0.0.1",
        "DETENT_NODES_SERVICE_HOST": "10.0.0.1",
        "DETENT_PORT": "tcp://10.0.0.1:80",
    }
    assert load(**kubernetes, DETENT_TEST_PG_BIN="x", DETENTION="x") == Config()


# ---------------------------------------------------------------- names and durations


@pytest.mark.parametrize("name", ["a", "default", "Mail-2.high_priority", "q" * 100])
def test_names_that_are_allowed(name: str) -> None:
    assert check_name("queue", name) == name


@pytest.mark.parametrize("name", ["", "a b", "a+b", "ä", "q" * 101, "a\n", None, 3])
def test_names_that_are_not(name: object) -> None:
    assert refused(lambda: check_name("queue", name)).startswith(f"queue {name!r}: must be")


@pytest.mark.parametrize(
    "text, seconds",
    [
        ("5s", 5),
        ("250ms", 0.25),
        ("15m", 900),
        ("2h", 7200),
        ("1d", 86400),
        ("1h30m", 5400),
        ("1.5 s", 1.5),
        (" 10 ", 10),
        ("0", 0),
        (2, 2),
        (0.5, 0.5),
    ],
)
def test_durations_are_read_as_people_write_them(text: object, seconds: float) -> None:
    assert parse_duration(text) == timedelta(seconds=seconds)


@pytest.mark.parametrize(
    "text", ["", "s", "5 sec", "5S", "-5s", "1e3", "5s!", None, True, [], "5µs"]
)
def test_what_is_no_duration_is_refused(text: object) -> None:
    with pytest.raises(ValueError, match="must be a duration such as"):
        parse_duration(text)


@given(st.integers(min_value=0, max_value=10**12))
def test_a_duration_reads_back_as_it_was_written(milliseconds: int) -> None:
    length = timedelta(milliseconds=milliseconds)
    assert parse_duration(format_duration(length)) == length
