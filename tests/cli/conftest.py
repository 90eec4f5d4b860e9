"""What the tests of the command share: a way to call it in this process, in a directory apart."""

import asyncio
import os
from collections.abc import Callable, Iterator
from pathlib import Path

import click.testing
import pytest
from click.testing import CliRunner, Result

from detent.cli import main, moments, nodes, queues
from detent.cli.jobs import listing, show
from detent.config import Config
from detent.databases import migrate_store
from detent.testing.postgres import TemporaryPostgres
from tests.cli.exhibition import NOW, exhibit, postpone

Detent = Callable[..., Result]


@pytest.fixture
def detent(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Detent:
    """Call `detent` with some arguments, in an empty directory and without any variables."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    for name in [name for name in os.environ if name.startswith("DETENT_")]:
        if not name.startswith("DETENT_TEST_"):
            monkeypatch.delenv(name)

    def call(*arguments: str, typed: str | None = None, **environ: str) -> Result:
        return CliRunner(env=environ).invoke(
            main,
            arguments,
            input=typed,
            prog_name="detent",
            terminal_width=80,
            catch_exceptions=False,
        )

    return call


@pytest.fixture
def terminal(monkeypatch: pytest.MonkeyPatch) -> Callable[[int], None]:
    """Let the command believe that it speaks to people, on a terminal of some width."""

    def use(width: int) -> None:
        wrapper = click.testing._NamedTextIOWrapper
        monkeypatch.setattr(wrapper, "isatty", lambda _self: True, raising=False)
        monkeypatch.setenv("COLUMNS", str(width))
        monkeypatch.setenv("LINES", "50")
        monkeypatch.setenv("TERM", "xterm-256color")
        monkeypatch.delenv("NO_COLOR", raising=False)

    return use


@pytest.fixture
def sqlite_url(tmp_path: Path) -> str:
    """The URL of a file of this test's own, with the tables."""
    url = f"sqlite:///{tmp_path / 'jobs.db'}"
    asyncio.run(migrate_store(Config.load(url, environ={})))
    return url


@pytest.fixture(params=["sqlite", "postgres"])
def store_url(request: pytest.FixtureRequest) -> str:
    """The URL of a store of this test's own: the embedded one, and a server."""
    url: str = request.getfixturevalue(f"{request.param}_url")
    return url


@pytest.fixture(scope="session")
def exhibitions(
    postgres_server: TemporaryPostgres, postgres_template: str
) -> Iterator[dict[str, str]]:
    """Databases in which everything is always the same, to be looked at only."""
    names = ("exhibition", "postponed")
    urls = {name: postgres_server.create_database(name, postgres_template) for name in names}
    for url in urls.values():
        asyncio.run(exhibit(url))
    asyncio.run(postpone(urls["postponed"]))
    yield urls
    for name in names:
        postgres_server.drop_database(name)


@pytest.fixture
def exhibition(exhibitions: dict[str, str], monkeypatch: pytest.MonkeyPatch) -> str:
    """The URL of the exhibition, with a clock that stands still and is the same everywhere."""
    for module in (moments, listing, show, queues, nodes):
        monkeypatch.setattr(module, "now", lambda: NOW)
    monkeypatch.setattr(show, "local", lambda moment: f"{moment:%Y-%m-%d %H:%M:%S}")
    return exhibitions["exhibition"]
