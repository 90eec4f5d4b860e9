"""If these fail, nobody sees why jobs wait, or somebody stops other calls than he meant."""

import json
from collections.abc import Callable
from datetime import UTC, datetime, timedelta

import pytest
from click.testing import Result

from detent import App, Breaker
from detent.cli import breakers as module
from detent.model.breaker import Verdict
from detent.model.circuit import Circuit, ask, count, force_open, judge
from detent.spi.breakers import BreakerRow
from tests.cli.conftest import Detent
from tests.cli.snapshots import check
from tests.cli.stores import Program

Breakers = Callable[..., Result]
NOW = datetime(2025, 1, 15, 10, 0, tzinfo=UTC)
SECOND, MINUTE = timedelta(seconds=1), timedelta(minutes=1)
QUICK = Breaker(window=20, minimum=4, wait=30 * SECOND, trials=3)


def exhibits() -> dict[str, Circuit]:
    """A breaker in each state, at fixed times."""
    opened = count(Circuit(), QUICK, [True] * 8 + [False] * 4, NOW - 12 * SECOND, "OSError")
    old = count(Circuit(), QUICK, [True] * 4, NOW - 2 * MINUTE, "ConnectTimeout")
    tried = ask(old, QUICK, "a", NOW - 80 * SECOND, MINUTE).circuit
    again = judge(tried, QUICK, "a", Verdict.FAILED, NOW - 70 * SECOND, "ConnectTimeout")
    trying = ask(again, QUICK, "a", NOW - 4 * SECOND, MINUTE).circuit
    trying = ask(trying, QUICK, "b", NOW - 3 * SECOND, MINUTE).circuit
    return {
        "geo\x1b[31m": Circuit(),
        "ledger": count(Circuit(), QUICK, [False] * 17 + [True] * 3, NOW, "OSError"),
        "mail": force_open(Circuit(), NOW - 3 * MINUTE, None, "they move house"),
        "search": judge(trying, QUICK, "b", Verdict.PASSED, NOW, ""),
        "stripe": opened,
    }


@pytest.fixture
def program(store_url: str) -> Program:
    return Program(store_url)


@pytest.fixture
def full(program: Program, monkeypatch: pytest.MonkeyPatch) -> None:
    """A store with breakers, and a clock that stands still."""

    async def save(app: App) -> None:
        rows = [BreakerRow.of(name, 1, circuit) for name, circuit in exhibits().items()]
        assert len(await app.store.save_breakers(rows)) == 5

    program.call(save)
    monkeypatch.setattr(module, "now", lambda: NOW)
    monkeypatch.setattr(module, "local", lambda moment: moment.isoformat(" ", "seconds"))


@pytest.fixture
def breakers(detent: Detent, store_url: str) -> Breakers:
    """Call `detent breakers`."""
    return lambda *arguments: detent("breakers", *arguments, DETENT_URL=store_url)


@pytest.mark.usefixtures("full")
@pytest.mark.parametrize("width, folder", [(100, "terminal"), (80, "narrow")])
def test_people(
    breakers: Breakers, terminal: Callable[[int], None], width: int, folder: str
) -> None:
    terminal(width)
    check(f"{folder}/breakers", breakers().output)
    for name in ("stripe", "search", "mail", "ledger"):
        if folder == "terminal":
            check(f"terminal/breakers-show-{name}", breakers("show", name).output)


@pytest.mark.usefixtures("full")
def test_programs(breakers: Breakers) -> None:
    listed = breakers().output
    assert "\x1b" not in listed
    check("plain/breakers", listed)
    check("json/breakers", breakers("list", "--json").output)
    check("plain/breakers-show-search", breakers("show", "search").output)
    check("json/breakers-show-search", breakers("show", "search", "--json").output)


@pytest.mark.usefixtures("full")
def test_a_breaker_is_opened_and_reset(breakers: Breakers) -> None:
    assert breakers("open", "ledger", "--reason", "audit").output == "ledger\topen\n"
    shown = json.loads(breakers("show", "ledger", "--json").output)
    assert (shown["state"], shown["forced"], shown["reason"]) == ("open", True, "audit")
    assert shown["half_open_at"] is None
    assert breakers("reset", "ledger").output == "ledger\tclosed\n"
    shown = json.loads(breakers("open", "ledger", "--for", "30m", "--json").output)
    assert shown["half_open_at"] is not None
    shown = json.loads(breakers("reset", "ledger", "--json").output)
    assert (shown["state"], shown["calls"], shown["half_open_at"]) == ("closed", 0, None)


@pytest.mark.usefixtures("full")
def test_people_are_told_what_follows(breakers: Breakers, terminal: Callable[[int], None]) -> None:
    terminal(100)
    assert "ledger is open; trials begin when reset" in breakers("open", "ledger").output
    said = breakers("reset", "ledger").output
    assert "ledger is closed; calls run as usual" in said
    assert "detent breakers show ledger" in said


@pytest.mark.usefixtures("full")
@pytest.mark.parametrize("verb", ["show", "reset", "open"])
def test_a_breaker_that_nobody_used_is_a_mistake(breakers: Breakers, verb: str) -> None:
    result = breakers(verb, "strype")
    assert (result.exit_code, result.stdout) == (1, "")
    assert result.stderr == "detent: error: there is no breaker 'strype'; did you mean 'stripe'?\n"
    unlike = breakers(verb, "zzz").stderr
    assert unlike == "detent: error: there is no breaker 'zzz'; see: detent breakers\n"
    assert len(json.loads(breakers("--json").output)) == 5


def test_an_empty_list_says_so(
    breakers: Breakers, program: Program, terminal: Callable[[int], None]
) -> None:
    assert breakers("--json").output == "[]\n"
    terminal(100)
    assert breakers().output == "No breaker is known: no node has run a task with one.\n"


@pytest.mark.usefixtures("full")
@pytest.mark.parametrize("given", ["soon", "0s", "2d"])
def test_a_time_that_cannot_be_is_refused(breakers: Breakers, given: str) -> None:
    result = breakers("open", "ledger", "--for", given)
    assert result.exit_code == 2
    assert f"detent: error: Invalid value for '--for': '{given}' must be " in result.stderr
    assert json.loads(breakers("show", "ledger", "--json").output)["state"] == "closed"


def test_a_node_makes_its_breakers_known(breakers: Breakers, program: Program) -> None:
    async def run(app: App) -> None:
        app.breaker("stripe")
        async with app.node():
            while not await app.store.breakers():
                pass

    program.call(run)
    assert [each["name"] for each in json.loads(breakers("--json").output)] == ["stripe"]
