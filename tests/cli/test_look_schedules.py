"""If these fail, what people see of schedules and of the cluster, or programs read, has changed.

When that was meant, write it anew with DETENT_UPDATE_SNAPSHOTS=1.
"""

import asyncio
import importlib
from collections.abc import Callable, Iterator

import pytest

from detent.cli import calendars, daemons, leaders, locks, moments
from detent.cli.schedules import coming, edit, listing, past, show
from detent.testing.postgres import TemporaryPostgres
from tests.cli.conftest import Detent
from tests.cli.snapshots import check
from tests.cli.timetable import NOW, set_up

Terminal = Callable[[int], None]

SCREENS = {
    "schedules": ["schedules"],
    "schedules-page": ["schedules", "list", "--limit", "2"],
    "schedules-none": ["schedules", "list", "--group", "nobody"],
    "schedules-show": ["schedules", "show", "nightly"],
    "schedules-show-stranded": ["schedules", "show", "stranded"],
    "schedules-show-paused": ["schedules", "show", "rests"],
    "schedules-show-over": ["schedules", "show", "was"],
    "schedules-next": ["schedules", "next", "nightly", "--count", "4"],
    "schedules-next-over": ["schedules", "next", "was"],
    "schedules-history": ["schedules", "history", "nightly"],
    "schedules-history-none": ["schedules", "history", "often"],
    "calendars": ["calendars"],
    "leaders": ["leaders"],
    "daemons": ["daemons"],
    "locks": ["locks"],
}
PREVIEW = ["schedules", "next", "--cron", "30 2 * * SUN", "--timezone", "Europe/Berlin"]

each_screen = pytest.mark.parametrize("name", SCREENS)


@pytest.fixture(scope="session")
def timetable_url(postgres_server: TemporaryPostgres, postgres_template: str) -> Iterator[str]:
    """A database in which everything is always the same, to be looked at only."""
    url = postgres_server.create_database("timetable", postgres_template)
    asyncio.run(set_up(url))
    yield url
    postgres_server.drop_database("timetable")


@pytest.fixture
def standing_clock(monkeypatch: pytest.MonkeyPatch) -> None:
    """A clock that stands still and is the same everywhere."""
    for module in (moments, listing, show, coming, past, edit, leaders, daemons, locks):
        monkeypatch.setattr(module, "now", lambda: NOW)


@pytest.fixture
def url(timetable_url: str, standing_clock: None) -> str:
    return timetable_url


@each_screen
def test_people(detent: Detent, url: str, terminal: Terminal, name: str) -> None:
    terminal(110)
    result = detent(*SCREENS[name], "--url", url)
    assert result.exit_code == 0
    check(f"terminal/{name}", result.output)


@pytest.mark.parametrize("name", ["schedules", "schedules-show", "leaders", "daemons", "locks"])
def test_people_with_a_narrow_terminal(
    detent: Detent, url: str, terminal: Terminal, name: str
) -> None:
    terminal(80)
    check(f"narrow/{name}", detent(*SCREENS[name], "--url", url).output)


@each_screen
def test_programs(detent: Detent, url: str, name: str) -> None:
    result = detent(*SCREENS[name], "--url", url)
    assert result.exit_code == 0
    assert "\x1b" not in result.output
    check(f"plain/{name}", result.output)


@each_screen
def test_documents(detent: Detent, url: str, name: str) -> None:
    result = detent(*SCREENS[name], "--url", url, "--json")
    assert result.exit_code == 0
    check(f"json/{name}", result.output)


@pytest.mark.usefixtures("standing_clock")
def test_a_preview_needs_no_store(detent: Detent, terminal: Terminal) -> None:
    check("plain/schedules-next-preview", detent(*PREVIEW).output)
    check("json/schedules-next-preview", detent(*PREVIEW, "--json").output)
    terminal(100)
    check("terminal/schedules-next-preview", detent(*PREVIEW).output)


def test_every_module_that_looks_at_the_clock_is_stopped() -> None:
    """Or a snapshot would hold only for a day."""
    names = ("listing", "show", "coming", "past", "edit", "change", "record")
    modules = [importlib.import_module(f"detent.cli.schedules.{name}") for name in names]
    looking = [module for module in (*modules, calendars) if hasattr(module, "now")]
    assert looking == [listing, show, coming, past, edit]
