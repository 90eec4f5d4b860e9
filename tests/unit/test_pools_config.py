"""If these fail, a pool is bigger, hungrier or of another kind than its settings say."""

from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from detent.config import Config, PoolConfig, format_size, parse_size
from detent.errors import ConfigError

Load = Callable[..., Config]


@pytest.fixture
def load(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Load:
    monkeypatch.chdir(tmp_path)

    def load(text: str = "", **environ: str) -> Config:
        (tmp_path / "detent.toml").write_text(text)
        return Config.load(environ=environ)

    return load


def test_a_pool_is_read_from_its_own_section(load: Load) -> None:
    config = load("""
        [node]
        processes = 3
        [pools.reports]
        kind = "process"
        size = 2
        max_jobs = 100
        max_memory = "512MB"
        idle = "90s"
        kill_grace = 0
        load_timeout = "2m"
        [pools.io]
        kind = "thread"
        [pools.bare]
    """)
    assert config.node.processes == 3
    assert config.pools == {
        "reports": PoolConfig(
            size=2,
            max_jobs=100,
            max_memory=512 << 20,
            idle=timedelta(seconds=90),
            kill_grace=timedelta(0),
            load_timeout=timedelta(minutes=2),
        ),
        "io": PoolConfig(kind="thread"),
        "bare": PoolConfig(),
    }
    assert Config().pools == {}
    assert Config().node.processes is None, "one for each core"


def test_variables_count_more_than_the_file_and_find_its_names(load: Load) -> None:
    config = load(
        "[pools.Big-Reports]\nsize = 2\nmax_jobs = 3",
        DETENT_POOLS_BIG_REPORTS_SIZE="5",
        DETENT_POOLS_IO_KIND="thread",
        DETENT_POOLS_SERVICE_HOST="10.0.0.1",
    )
    assert config.pools == {
        "Big-Reports": PoolConfig(size=5, max_jobs=3),
        "io": PoolConfig(kind="thread"),
    }


@pytest.mark.parametrize(
    "text,message",
    [
        ("[pools]\nsize = 3", r"\[pools\] size: a pool has a name: write \[pools.reports\]"),
        ("[pools.a]\nsze = 3", r"\[pools.a\] sze: unknown key; did you mean .* size\?"),
        ("[pools.a]\nmax_memory = '1MB'", r"\[pools.a\] max_memory = '1MB': must be 16MB or more"),
        ("[pools.a]\nmax_memory = 'x'", r"'x': must be an amount of memory such as"),
        ("[pools.a]\nsize = 0", r"\[pools.a\] size = 0: must be a whole number from 1"),
        ("[pools.a]\nidle = '0s'", r"\[pools.a\] idle = '0s': must be longer than 0"),
        ("[pools.a]\nkind = 'fiber'", 'must be "process" or "thread"'),
        ("[pools.a]\nkind = 'thread'\nmax_jobs = 1", r"\[pools.a\] max_jobs = 1: is for child"),
        ("[pools.thread]\nkind = 'process'", "can only be 'thread'"),
        ("[pools.async]\nsize = 1", "the event loop itself"),
        ("[pools.'a b']\nsize = 1", "the pool 'a b': must be 1 to 100"),
        ("[node]\nprocesses = 0", r"\[node\] processes = 0"),
        ("pools = 3", "unknown key"),
    ],
)
def test_a_mistake_names_the_pool_the_key_and_the_value(
    load: Load, text: str, message: str
) -> None:
    with pytest.raises(ConfigError, match=message):
        load(text)


def test_a_variable_with_a_mistake_is_named(load: Load) -> None:
    with pytest.raises(ConfigError, match=r"DETENT_POOLS_A_SIZ: unknown key; .* one of kind, size"):
        load(DETENT_POOLS_A_SIZ="1")
    with pytest.raises(ConfigError, match=r"\[pools.a\] size = 'x'.*from DETENT_POOLS_A_SIZE"):
        load(DETENT_POOLS_A_SIZE="x")


@pytest.mark.parametrize("pools", [3, {"a": 3}, {"a b": PoolConfig()}, {"async": PoolConfig()}])
def test_what_a_program_passes_as_pools_is_checked_too(pools: Any) -> None:
    with pytest.raises(ConfigError, match="pool"):
        Config(pools=pools)


# ---------------------------------------------------------------- amounts of memory


@pytest.mark.parametrize(
    "text,size",
    [
        ("0", 0),
        (7, 7),
        ("7B", 7),
        ("64kB", 64 << 10),
        ("64 KB", 64 << 10),
        ("512MB", 512 << 20),
        ("512 mib", 512 << 20),
        ("1.5GB", 3 << 29),
        ("2G", 2 << 30),
        ("1TB", 1 << 40),
    ],
)
def test_amounts_are_read_as_people_write_them(text: object, size: int) -> None:
    assert parse_size(text) == size


@pytest.mark.parametrize("text", ["", "MB", "-1MB", "1XB", "1 2MB", "1e3", None, True, 1.5, "٣MB"])
def test_what_is_no_amount_is_refused(text: object) -> None:
    with pytest.raises(ValueError, match="amount of memory"):
        parse_size(text)


@given(st.integers(0, 1 << 50))
def test_an_amount_is_shown_in_a_form_that_reads_about_the_same(size: int) -> None:
    assert abs(parse_size(format_size(size)) - size) <= size * 0.05 + 1
