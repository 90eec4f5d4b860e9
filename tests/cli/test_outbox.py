"""If these fail, an operator does not see which events nobody got, or who fails and how often."""

import asyncio
import json
import re
from collections.abc import Callable

import pytest
from click.testing import Result

from detent import App, Fail
from detent.alerts import LogAlert
from detent.errors import DeliveryFailed
from detent.events import EventUndeliverable
from tests.cli.conftest import Detent
from tests.cli.stores import Program

Call = Callable[..., Result]


@pytest.fixture
def call(detent: Detent, store_url: str) -> Call:
    return lambda *arguments: detent(*arguments, DETENT_URL=store_url)


@pytest.fixture
def filled(store_url: str) -> str:
    """A store with one event that a sink refused and one that waits, and an alert."""
    program = Program(store_url)

    async def fill(app: App) -> None:
        async def refuse(_event: object) -> None:
            raise DeliveryFailed("HTTP 404: who?", refused=True)

        given_up = asyncio.Queue[EventUndeliverable]()
        app.on(EventUndeliverable, given_up.put_nowait)
        app.sink("billing", refuse, max_attempts=1)
        app.alerts.to(LogAlert())

        @app.task(name="shop.send")
        async def send(number: int) -> None:
            raise Fail(f"no route to {number}")

        async with app.node():
            for number in range(3):
                job = await send.enqueue(number)
                await asyncio.gather(job.result(timeout=30), return_exceptions=True)
            for _ in range(3):
                await asyncio.wait_for(given_up.get(), 30)
        # Failures that were not yet counted are, when a node stops.
        assert sum(alert.times for alert in await app.alerts.list()) == 3
        later = await send.enqueue(4)
        await app.jobs.cancel(later.id, reason="no need")

    program.call(fill)
    return store_url


def test_nothing_waits(call: Call, terminal: Callable[[int], None]) -> None:
    assert call("outbox").output == ""
    assert call("alerts").output == ""
    assert json.loads(call("outbox", "list", "--json").output) == []
    terminal(80)
    assert "There is no alert: no job has failed for good, or" in call("alerts").output


def test_events_are_listed_and_retried(call: Call, filled: str) -> None:
    events = json.loads(call("outbox", "--json").output)
    assert [event["kind"] for event in events] == ["failed"] * 3 + ["canceled"]
    assert [event["undeliverable"] for event in events] == [True] * 3 + [False]
    assert events[0]["problem"] == "DeliveryFailed: HTTP 404: who?"
    assert (events[0]["sink"], events[0]["task"], events[0]["tries"]) == ("billing", "shop.send", 1)
    assert events[0]["next_try_at"] is None
    assert events[3]["next_try_at"].endswith("Z")
    lines = call("outbox", "list", "--undeliverable", "--limit", "2").output.splitlines()
    assert [line.split("\t")[0] for line in lines] == [str(event["id"]) for event in events[:2]]
    assert call("outbox", "list", "--sink", "other").output == ""
    first = str(events[0]["id"])
    assert call("outbox", "retry", first).output == "1 event is tried again.\n"
    result = call("outbox", "retry", first)
    assert result.exit_code == 1
    assert result.stderr == (
        f"detent: error: no undeliverable event is numbered {first}; see: detent outbox list\n"
    )
    assert json.loads(call("outbox", "retry", "--sink", "billing", "--json").output) == {
        "retried": 2
    }
    assert call("outbox", "retry", "--all").output == "0 events are tried again.\n"


def test_events_that_nobody_wants_are_discarded(call: Call, filled: str) -> None:
    first, *_ = json.loads(call("outbox", "--json").output)
    assert call("outbox", "discard", str(first["id"])).output == "1 event is discarded.\n"
    result = call("outbox", "discard", str(first["id"]))
    assert (result.exit_code, result.stderr) == (
        1,
        f"detent: error: no event is numbered {first['id']}; see: detent outbox list\n",
    )
    result = call("outbox", "discard", "--sink", "billing")
    assert (result.exit_code, result.stderr) == (
        2,
        "detent: error: detent outbox discard: nobody to ask here; add --yes\n",
    )
    said = call("outbox", "discard", "--sink", "billing", "--yes", "--json").output
    assert json.loads(said) == {"discarded": 3}
    assert call("outbox").output == ""
    result = call("outbox", "discard")
    assert result.exit_code == 2
    assert "name events, or a --sink (see: detent outbox discard -h)" in result.stderr
    result = call("outbox", "discard", "--sink", "a b", "--yes")
    assert (result.exit_code, result.stderr.count("\n")) == (2, 1)
    assert "sink 'a b': must be 1 to 100 of" in result.stderr


def test_what_to_retry_must_be_said(call: Call) -> None:
    result = call("outbox", "retry")
    assert result.exit_code == 2
    assert "name events, a --sink, or --all (see: detent outbox retry -h)" in result.stderr
    assert call("outbox", "retry", "0").exit_code == 2


def test_alerts_are_listed_and_acknowledged(call: Call, filled: str) -> None:
    alerts = json.loads(call("alerts", "--json").output)
    assert sum(alert["count"] for alert in alerts) == 3
    assert (alerts[0]["task"], alerts[0]["type"]) == ("shop.send", "Fail")
    assert alerts[0]["message"] == "no route to <n>"
    assert alerts[0]["delivered_at"] is not None
    assert call("alerts", "list", "--task", "other").output == ""
    for alert in alerts:
        said = call("alerts", "ack", str(alert["id"]), "--by", "ada").output
        assert said == f"Alert {alert['id']} was seen by ada.\n"
    assert call("alerts", "list", "--open").output == ""
    again = json.loads(call("alerts", "ack", str(alerts[0]["id"]), "--by", "bob", "--json").output)
    assert again["acked_by"] == "ada", "the first one stands"
    fields = call("alerts").output.splitlines()[0].split("\t")
    assert (fields[1], fields[3], fields[-1]) == ("shop.send", "Fail", "ada")
    shown = call("alerts", "show", str(alerts[0]["id"])).output
    assert "Fail: no route to <n>" in shown
    assert re.search(r"trail  \S+ \S+ told to alert:log\n\s+\S+ \S+ seen by ada\n", shown), shown
    steps = json.loads(call("alerts", "show", str(alerts[0]["id"]), "--json").output)["trail"]
    assert [(step["what"], step["who"]) for step in steps] == [
        ("told", "alert:log"),
        ("acked", "ada"),
    ]
    unknown = "detent: error: there is no alert 99999; see: detent alerts list\n"
    for verb in ("show", "ack"):
        result = call("alerts", verb, "99999")
        assert (result.exit_code, result.stderr) == (1, unknown)


@pytest.mark.usefixtures("filled")
def test_whoever_has_no_name_says_who_has_seen_an_alert(
    call: Call, monkeypatch: pytest.MonkeyPatch
) -> None:
    def nameless() -> str:
        raise KeyError("getpwuid(): uid not found: 54321")  # as in a container of any user

    monkeypatch.setattr("getpass.getuser", nameless)
    result = call("alerts", "ack", "1")
    assert result.exit_code == 2
    assert result.stderr == ("detent: error: --by: this account has no name; say who has seen it\n")
    assert "by = ''" in call("alerts", "ack", "1", "--by", "").stderr
    assert call("alerts", "ack", "1", "--by", "ada").exit_code == 0


def test_people_see_tables(call: Call, filled: str, terminal: Callable[[int], None]) -> None:
    terminal(160)
    said = call("outbox").output
    assert "undeliverable" in said
    assert "detent outbox retry" in said
    said = call("alerts").output
    assert "nobody" in said
    assert "detent alerts ack" in said
    assert "There is no such alert." in call("alerts", "list", "--task", "other").output
