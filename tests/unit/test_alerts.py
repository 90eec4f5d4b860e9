"""If these fail, ten thousand failures wake somebody ten thousand times, or nobody at all."""

import asyncio
import json
from datetime import timedelta
from typing import Any

import pytest

from detent import App, ConfigError, Fail, Retry
from detent._engine.alert import Alerter, fingerprint_of
from detent.alerts import LogAlert, WebhookAlert
from detent.config import AlertsConfig, Config
from detent.errors import AlertNotFound, DeliveryFailed
from detent.events import AlertRaised, EventUndeliverable
from detent.spi.outbox import AlertInfo
from detent.testing.conformance.steps import crash_nodes
from detent.testing.simulation.stage import Stage
from detent.testing.virtual import in_virtual_time

ONCE = Retry(max_attempts=1)


def declare(app: App) -> Any:
    @app.task(name="shop.send", retry=ONCE)
    async def send(number: int, why: str = "no route to host") -> None:
        if number >= 0:
            raise OSError(f"{why} {number} for 'user-{number}'")

    return send


@in_virtual_time
async def test_ten_thousand_failures_are_one_alert_in_a_few_statements() -> None:
    stage = Stage()
    alerter = Alerter(
        stage.runtime,
        stage.app.bus,
        stage.store,
        window=timedelta(hours=1),
        most_kinds=20,
        sinks=["alert:log"],
    )
    running = asyncio.create_task(alerter.run())
    for number in range(10_000):
        error = json.dumps({"type": "OSError", "message": f"no route to {number}"}).encode()
        alerter.note("shop.send", stage.runtime.new_id(), error)
        if number % 1000 == 0:
            await asyncio.sleep(0)
    alerter.stop()
    await running
    (alert,) = stage.tables.alerts.values()
    assert (alert.times, alert.message) == (10_000, "no route to <n>")
    assert len(stage.tables.events) == 1
    assert stage.line.count("raise_alerts") <= 11


@pytest.mark.parametrize("error", [None, b"", b"[]", b"\x00sealed", b'{"type": 1}', b"{}"])
def test_an_error_that_cannot_be_read_is_known_by_its_words(error: bytes | None) -> None:
    mark = fingerprint_of(error, "ValueError: order 7 is <encrypted>")
    assert (mark.type, mark.message) == ("ValueError", "order <n> is <encrypted>")
    assert fingerprint_of(error).type == "unknown"


@in_virtual_time
async def test_many_failures_of_one_kind_are_one_alert() -> None:
    stage, told = Stage(), list[AlertInfo]()
    send = declare(stage.app)
    stage.app.alerts.to(told.append, name="team")
    async with stage.node():
        await stage.app.enqueue_many([send.bind(number) for number in range(500)])
        await stage.until(
            lambda: [row for row in stage.tables.alerts.values() if row.times == 500], 600
        )
        await stage.until(lambda: told)
    assert len(told) == 1
    (alert,) = await stage.app.alerts.list()
    assert alert.times == 500
    assert (alert.task, alert.type) == ("shop.send", "OSError")
    assert alert.message == "no route to host <n> for <text>"
    assert alert.frame == "unit/test_alerts.py:send"
    assert alert.delivered_at is not None
    assert stage.tables.events == {}


@in_virtual_time
async def test_other_errors_and_other_windows_are_other_alerts() -> None:
    stage = Stage(Config(alerts=AlertsConfig(window=timedelta(minutes=10))))
    told = list[AlertInfo]()
    send = declare(stage.app)
    stage.app.alerts.to(told.append, name="team")
    async with stage.node():
        await send.enqueue(1)
        await send.enqueue(2, "no disk")
        await send.enqueue(3, "no disk")
        await stage.until(lambda: len(told) == 2)
        await asyncio.sleep(600)
        await send.enqueue(4)
        await stage.until(lambda: len(told) == 3)
    assert sorted(alert.message.split(" <")[0] for alert in told) == [
        "no disk",
        "no route to host",
        "no route to host",
    ]
    assert len({alert.window_start for alert in told}) == 2


@in_virtual_time
async def test_names_in_messages_do_not_flood_people() -> None:
    stage, told = Stage(), list[AlertInfo]()
    stage.app.alerts.to(told.append, name="team")

    @stage.app.task(name="shop.greet")
    async def greet(name: str) -> None:
        raise Fail(f"no such user: {name}")

    names = [f"{a}{b}ert" for a in "abcdefghijklmnopqrst" for b in "aeiouaeiou"]
    async with stage.node():
        await stage.app.enqueue_many([greet.bind(name) for name in dict.fromkeys(names)])
        await stage.until(
            lambda: sum(row.times for row in stage.tables.alerts.values()) == 100, 600
        )
        await stage.until(lambda: not stage.tables.events)
    assert len(told) == 20 + 1
    assert told[-1].type == "ManyKinds"
    assert sum(alert.times for alert in await stage.app.alerts.list()) == 100


@in_virtual_time
async def test_a_window_begins_with_its_first_failure_and_not_with_the_hour() -> None:
    stage, told = Stage(), list[AlertInfo]()
    send = declare(stage.app)
    stage.app.alerts.to(told.append, name="team")
    async with stage.node():
        await asyncio.sleep(1_800)
        for number in range(6):  # over 50 minutes, from half an hour to the next
            await send.enqueue(number)
            await asyncio.sleep(600)
        await stage.until(lambda: told)
        assert [alert.times for alert in await stage.app.alerts.list()] == [6]
        await asyncio.sleep(600)
        await send.enqueue(7)
        await stage.until(lambda: len(told) == 2)


@in_virtual_time
async def test_two_nodes_tell_once() -> None:
    stage, told = Stage(), list[Any]()
    other = stage.new_app()
    send, _ = declare(stage.app), declare(other)
    for app in (stage.app, other):
        app.alerts.to(told.append, name="team")
    async with stage.node(concurrency=1), stage.node(other, concurrency=1):
        for number in range(40):
            await send.enqueue(number)
        await stage.until(lambda: sum(row.times for row in stage.tables.alerts.values()) == 40)
    assert len(told) == 1


@in_virtual_time
async def test_jobs_that_succeed_or_are_retried_raise_nothing() -> None:
    stage = Stage()
    send = declare(stage.app)
    stage.app.alerts.to(LogAlert())

    @stage.app.task(retry=Retry(max_attempts=2, delay=timedelta(seconds=1), backoff="fixed"))
    async def flaky() -> None:
        tries.append(1)
        if len(tries) == 1:
            raise ValueError

    tries: list[int] = []
    async with stage.node():
        await (await send.enqueue(-1)).result(timeout=5)
        await (await flaky.enqueue()).result(timeout=30)
    assert stage.tables.alerts == {}
    assert stage.line.count("raise_alerts") == 0


@in_virtual_time
async def test_a_job_that_kills_its_nodes_raises_one() -> None:
    stage, told = Stage(), list[AlertInfo]()

    @stage.app.task(name="shop.burn")
    async def burn() -> None:
        await asyncio.sleep(3600)

    survivor = stage.new_app()
    survivor.alerts.to(told.append, name="team")
    job = await burn.enqueue()
    await crash_nodes(stage.store, times=2)
    async with stage.node() as node:
        await stage.until(lambda: stage.tables.running)
        async with stage.node(survivor, queues={"other": 1}):
            await stage.store.declare_dead([node.identity.incarnation], "it burned")
            await stage.until(lambda: told)
    assert [(alert.task, alert.type, alert.first_job) for alert in told] == [
        ("shop.burn", "NodeDied", job.id)
    ]


@in_virtual_time
async def test_what_fails_while_the_store_is_away_is_counted_later() -> None:
    stage, told = Stage(), list[AlertInfo]()
    send = declare(stage.app)
    stage.app.alerts.to(told.append, name="team")
    async with stage.node():
        stage.line.lose("raise_alerts", times=3)
        for number in range(5):
            await send.enqueue(number)
        await stage.until(lambda: told)
        await stage.until(lambda: stage.tables.alerts[1].times == 5)


@in_virtual_time
async def test_the_last_failure_of_a_node_is_counted() -> None:
    stage = Stage()
    send = declare(stage.app)
    stage.app.alerts.to(LogAlert())
    async with stage.node():
        job = await send.enqueue(1)
        await stage.until(lambda: job.id in stage.tables.outcome)
    (alert,) = await stage.app.alerts.list()
    assert alert.times == 1


@in_virtual_time
async def test_the_log_is_told() -> None:
    stage = Stage()
    send = declare(stage.app)
    stage.app.alerts.to(LogAlert())
    async with stage.node():
        job = await send.enqueue(1)
        await stage.until(lambda: stage.told(AlertRaised))
    (told,) = stage.told(AlertRaised)
    assert (told.task, told.job_id, told.count) == ("shop.send", job.id, 1)
    assert told.error == "OSError: no route to host <n> for <text> in unit/test_alerts.py:send"


@in_virtual_time
async def test_alerts_are_acknowledged() -> None:
    stage = Stage()
    send = declare(stage.app)
    alerts = stage.app.alerts
    alerts.to(LogAlert())
    async with stage.node():
        await send.enqueue(1)
        await stage.until(lambda: stage.tables.alerts)
    (alert,) = await alerts.list(acked=False)
    assert (await alerts.ack(alert.id, "ada")).acked_by == "ada"
    assert (await alerts.ack(alert.id, "bob")).acked_by == "ada", "the first one stands"
    assert await alerts.list(acked=False) == []
    assert (await alerts.get(alert.id)).acked_at is not None
    with pytest.raises(AlertNotFound, match="there is no alert 99"):
        await alerts.ack(99, "ada")
    with pytest.raises(AlertNotFound):
        await alerts.get(99)
    wrong: Any = alerts
    for by in ("", "a\nb", 5, "x" * 256):
        with pytest.raises(ConfigError, match="by = "):
            await wrong.ack(alert.id, by)
    for limit in (0, "x", 2.5, True, 10_001):
        with pytest.raises(ConfigError, match=r"limit = .*: must be 1 to 10000"):
            await wrong.list(limit=limit)
    for task in ("a\0b", 7):
        with pytest.raises(ConfigError, match=r"task = .*: must be a text without NUL"):
            await wrong.list(task=task)
    for number in ("1", 0, 2**63, 1.0):
        with pytest.raises(ConfigError, match=r"alert = .*: must be a number"):
            await wrong.get(number)


@in_virtual_time
async def test_a_target_that_raises_is_asked_again_and_keeps_no_other_waiting() -> None:
    stage, asked = Stage(), list[float]()
    send = declare(stage.app)

    async def page(alert: AlertInfo) -> None:
        asked.append(stage.now)
        if len(asked) < 3:
            raise OSError("the pager is out of reach")

    async def mail(alert: AlertInfo) -> None:
        raise DeliveryFailed("no such address", refused=True)

    for target in (page, mail, LogAlert()):
        stage.app.alerts.to(target)
    async with stage.node():
        await send.enqueue(1)
        await stage.until(lambda: stage.told(AlertRaised), 1)
        await stage.until(lambda: stage.told(EventUndeliverable) and len(asked) == 3)
        await stage.until(lambda: not [row for row in stage.tables.events.values() if not row[-1]])
    assert 1.4 < asked[-1] - asked[0] < 4, "after one second, and after two"
    (alert,) = await stage.app.alerts.list()
    assert [step[1:] for step in alert.trail if step.who == "alert:page"] == [
        ("told", "alert:page", "in try 3")
    ]
    assert [step.what for step in alert.trail if step.who == "alert:mail"] == ["undeliverable"]
    assert [step.what for step in alert.trail if step.who == "alert:log"] == ["told"]


@in_virtual_time
async def test_old_alerts_go() -> None:
    stage = Stage(Config(alerts=AlertsConfig(keep=timedelta(hours=1))))
    send = declare(stage.app)
    stage.app.alerts.to(LogAlert())
    async with stage.node():
        await send.enqueue(1)
        await stage.until(lambda: stage.tables.alerts)
        await asyncio.sleep(timedelta(minutes=50).total_seconds())
        assert stage.tables.alerts
        await asyncio.sleep(timedelta(minutes=75).total_seconds())
        assert not stage.tables.alerts


class TakesNothing:
    """A target that could not be given an alert."""

    async def deliver(self) -> None: ...


class Unhurried:
    """A target that does not say in seconds how long it takes."""

    timeout = "never"

    async def deliver(self, event: object, alert: object) -> None: ...


def test_a_target_that_cannot_be_is_refused() -> None:
    app = App("memory://")
    with pytest.raises(
        ConfigError, match=r"must be LogAlert\(\), WebhookAlert\(url\) or a function"
    ):
        app.alerts.to("ops@example.com")  # type: ignore[arg-type]
    for kind in (LogAlert, WebhookAlert):
        with pytest.raises(ConfigError, match=r"must be LogAlert\(\), WebhookAlert\(url\)"):
            app.alerts.to(kind)  # type: ignore[arg-type]
    with pytest.raises(ConfigError, match="url = 'ftp://x'"):
        app.alerts.to(WebhookAlert("ftp://x"))
    with pytest.raises(ConfigError, match="<lambda>"):
        app.alerts.to(lambda alert: None)
    for target in (lambda: None, TakesNothing()):
        with pytest.raises(ConfigError, match=r"must be LogAlert\(\), WebhookAlert\(url\)"):
            app.alerts.to(target, name="none")  # type: ignore[arg-type]
    with pytest.raises(ConfigError, match="timeout = 'never': must be a timedelta or seconds"):
        app.alerts.to(Unhurried(), name="slow")
    app.alerts.to(LogAlert())
    with pytest.raises(ConfigError, match="name = 'log': there is one already; give another"):
        app.alerts.to(LogAlert())
    app.alerts.to(WebhookAlert("https://example.com"))
    app.alerts.to(WebhookAlert("https://example.com"), name="second")
    assert list(app.alerts.outlets) == ["alert:log", "alert:webhook", "alert:second"]


def test_fail_is_a_failure() -> None:
    """`Fail` ends a job for good at once, and is told of like any other."""

    @in_virtual_time
    async def test() -> None:
        stage = Stage()
        stage.app.alerts.to(LogAlert())

        @stage.app.task
        async def work() -> None:
            raise Fail("never")

        async with stage.node():
            await work.enqueue()
            await stage.until(lambda: stage.told(AlertRaised))
        assert stage.told(AlertRaised)[0].error.startswith("Fail: never")

    test()
