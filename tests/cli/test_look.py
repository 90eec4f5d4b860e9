"""If these fail, what people see, or what programs read, has changed its look.

When that was meant, write it anew with DETENT_UPDATE_SNAPSHOTS=1.
"""

from collections.abc import Callable
from uuid import UUID

import pytest

from tests.cli.conftest import Detent
from tests.cli.exhibition import CANCELED, FAILED, LATER, PENDING, RUNNING, SUCCEEDED, UNKNOWN
from tests.cli.snapshots import check

Terminal = Callable[[int], None]

SCREENS = {
    "jobs-list": ["jobs", "list"],
    "jobs-list-page": ["jobs", "list", "--limit", "2"],
    "jobs-list-none": ["jobs", "list", "--task", "nobody"],
    "queues": ["queues"],
    "nodes": ["nodes"],
    **{
        f"jobs-show-{name}": ["jobs", "show", str(job)]
        for name, job in {
            "pending": PENDING,
            "later": LATER,
            "running": RUNNING,
            "unknown": UNKNOWN,
            "succeeded": SUCCEEDED,
            "failed": FAILED,
            "canceled": CANCELED,
        }.items()
    },
    "jobs-show-failed-full": ["jobs", "show", str(FAILED), "--full"],
}


@pytest.fixture
def url(name: str, exhibition: str, exhibitions: dict[str, str]) -> str:
    """Where a screen looks: what is due is counted by a database whose clock goes on."""
    return exhibitions["postponed"] if name == "queues" else exhibition


each_screen = pytest.mark.parametrize("name", SCREENS)


@each_screen
def test_people(detent: Detent, url: str, terminal: Terminal, name: str) -> None:
    terminal(100)
    result = detent(*SCREENS[name], "--url", url)
    assert result.exit_code == 0
    check(f"terminal/{name}", result.output)


@pytest.mark.parametrize("name", ["jobs-list", "queues", "nodes", "jobs-show-running"])
def test_people_with_a_narrow_terminal(
    detent: Detent, url: str, terminal: Terminal, name: str
) -> None:
    terminal(80)
    result = detent(*SCREENS[name], "--url", url)
    check(f"narrow/{name}", result.output)


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


def test_colours_are_left_out_when_somebody_wants_none(
    detent: Detent, exhibition: str, terminal: Terminal
) -> None:
    terminal(100)
    colourful = detent("jobs", "list", "--url", exhibition).output
    assert "\x1b[1;31mfailed" in colourful
    plain = detent("jobs", "list", "--url", exhibition, NO_COLOR="1").output
    assert "\x1b[1;31m" not in plain
    assert "\x1b[1mfailed" in plain


def test_what_is_listed_can_be_shown(detent: Detent, exhibition: str) -> None:
    lines = detent("jobs", "list", "--url", exhibition).output.splitlines()
    ids = [line.split("\t")[0] for line in lines]
    assert len(ids) == 8
    for job_id in ids:
        shown = detent("jobs", "show", job_id, "--url", exhibition)
        assert shown.exit_code == 0
        assert UUID(shown.output.split()[1]) == UUID(job_id)
