"""If these fail, an operator reads nothing, or something misleading, about what a node did."""

import dataclasses
import inspect
import logging
from uuid import UUID

import pytest

from detent import events, logs
from detent.events import Bus

JOB = UUID(int=1)
NODE = UUID(int=2)

EXAMPLES: list[tuple[object, str]] = [
    (
        events.JobStarted(JOB, "mail.send", "mail", 1, NODE),
        f"job {JOB} (mail.send) from queue mail started; attempt 1 is running",
    ),
    (
        events.JobSucceeded(JOB, "mail.send", "mail", 1, NODE, 0.25),
        f"job {JOB} (mail.send) succeeded in attempt 1 after 0.250 s; its outcome is being written",
    ),
    (
        events.JobRetrying(JOB, "mail.send", "mail", 1, NODE, "OSError: no route", 4.0),
        (
            f"job {JOB} (mail.send) failed in attempt 1: OSError: no route; "
            "retrying in 4.0 s as attempt 2"
        ),
    ),
    (
        events.JobDied(JOB, "mail.send", "mail", 5, NODE, "OSError: no route"),
        (
            f"job {JOB} (mail.send) failed for good in attempt 5: OSError: no route; "
            "it stays with the failed jobs until it is retried or deleted"
        ),
    ),
    (
        events.JobSnoozed(JOB, "mail.send", "mail", 1, NODE, 60.0),
        f"job {JOB} (mail.send) asked to wait; running it again in 60.0 s, nothing charged",
    ),
    (
        events.JobTimedOut(JOB, "mail.send", "mail", 1, NODE, 30.0),
        (
            f"job {JOB} (mail.send) took longer than 30 s in attempt 1 and was stopped; "
            "its retry policy decides what follows"
        ),
    ),
    (
        events.JobWasCanceled(JOB, "mail.send", "mail", 1, NODE, "not needed"),
        (
            f"job {JOB} (mail.send) was canceled while it ran (not needed); "
            "it runs again only if it is retried"
        ),
    ),
    (
        events.ClaimWasLost(JOB, "mail.send", NODE),
        (
            f"the claim on job {JOB} (mail.send) was lost; what this attempt came to is dropped, "
            "the next claim decides"
        ),
    ),
    (
        events.ResultDropped(JOB, "mail.send", "too large"),
        (
            f"the result of job {JOB} (mail.send) could not be kept: too large; "
            "the job succeeds without it"
        ),
    ),
    (
        events.TaskUnknown(JOB, "mail.sned", NODE),
        (
            f"job {JOB} names the task 'mail.sned', which this node does not know; "
            "it waits, uncharged, for a node that does"
        ),
    ),
    (
        events.StuckThread(JOB, "mail.send", NODE),
        (
            f"the thread of job {JOB} (mail.send) goes on after its attempt was given up; "
            "its result will be refused and it keeps its slot until it returns"
        ),
    ),
    (
        events.NodeStarted(NODE, "web-1", {"mail": 20, "default": 50}),
        f"node web-1 ({NODE}) started; taking jobs from mail (20), default (50)",
    ),
    (
        events.NodeDraining(NODE, 1),
        f"node {NODE} is draining and claims no more; waiting for 1 running job",
    ),
    (events.NodeDraining(NODE, 0), f"node {NODE} is draining and claims no more; leaving"),
    (events.NodeStopped(NODE, 0), f"node {NODE} stopped; all its jobs have ended or gone back"),
    (
        events.NodeStopped(NODE, 2),
        f"node {NODE} stopped; 2 unfinished jobs went back, uncharged, for other nodes",
    ),
    (
        events.NodeFenced(NODE, "no heartbeat for 10 s"),
        (
            f"node {NODE} could not prove that it is alive: no heartbeat for 10 s; "
            "it dropped its jobs, others will run them, and it joins anew"
        ),
    ),
    (
        events.StoreTrouble("claimer", "StoreUnavailable: gone", 1.5),
        "the store failed (claimer): StoreUnavailable: gone; trying again in 1.5 s",
    ),
    (events.StoreRecovered("claimer"), "the store answers again (claimer); going on"),
    (
        events.FinishGaveUp(JOB, "mail.send", "gone"),
        (
            f"the end of job {JOB} (mail.send) could not be written: gone; "
            "it will run again when its claim is released"
        ),
    ),
    (
        events.ClaimsReconciled(NODE, 3),
        (
            f"3 claims in the name of node {NODE} were unknown to it; "
            "they went back, uncharged, to be claimed again"
        ),
    ),
    (
        events.ClockSkew(NODE, -2.5),
        (
            f"the clock of node {NODE} and the store's differ by 2.5 s; "
            "jobs go on by the store's clock, but this machine's should be set right"
        ),
    ),
    (
        events.HookFailed("on_start", "ValueError: x"),
        "the hook on_start failed: ValueError: x; going on without it",
    ),
]


@pytest.fixture
def logger() -> logging.Logger:
    """A logger at DEBUG that `caplog` hears and no other test knows."""
    logger = logging.getLogger("detent.test_logs")
    logger.setLevel(logging.DEBUG)
    return logger


@pytest.mark.parametrize("event, line", EXAMPLES)
def test_every_line_says_what_happened_and_what_happens_next(
    event: object, line: str, logger: logging.Logger, caplog: pytest.LogCaptureFixture
) -> None:
    bus = Bus()
    logs.attach(bus, logger)
    bus.emit(event)
    assert caplog.messages == [line]
    assert ";" in line


def test_every_event_has_a_line_and_an_example() -> None:
    everything = {
        kind
        for _, kind in inspect.getmembers(events, inspect.isclass)
        if dataclasses.is_dataclass(kind)
    }
    assert set(logs.LINES) == everything
    assert {type(event) for event, _ in EXAMPLES} == everything


def test_what_happens_with_every_job_costs_nothing_unless_somebody_debugs(
    logger: logging.Logger,
) -> None:
    logger.setLevel(logging.INFO)
    bus = Bus()
    logs.attach(bus, logger)
    assert not bus.wants(events.JobStarted)
    assert not bus.wants(events.JobSucceeded)
    assert bus.wants(events.JobRetrying)


def test_a_level_raised_later_is_followed(
    logger: logging.Logger, caplog: pytest.LogCaptureFixture
) -> None:
    bus = Bus()
    logs.attach(bus, logger)
    logger.setLevel(logging.ERROR)
    bus.emit(events.StoreRecovered("claimer"))
    bus.emit(events.FinishGaveUp(JOB, "mail.send", "gone"))
    assert [record.levelname for record in caplog.records] == ["ERROR"]


def test_an_error_message_cannot_forge_a_line_of_its_own(
    logger: logging.Logger, caplog: pytest.LogCaptureFixture
) -> None:
    bus = Bus()
    logs.attach(bus, logger)
    error = "ValueError: 100 %s\n2030-01-01 CRITICAL all is lost\x1b[2J"
    bus.emit(events.JobDied(JOB, "mail.send", "mail", 1, NODE, error))
    (line,) = caplog.messages
    assert line.isprintable()
    assert "100 %s\\n2030" in line


def test_a_long_message_keeps_what_happens_next(
    logger: logging.Logger, caplog: pytest.LogCaptureFixture
) -> None:
    bus = Bus()
    logs.attach(bus, logger)
    bus.emit(events.JobRetrying(JOB, "mail.send", "mail", 1, NODE, "x" * 100_000, 4.0))
    (line,) = caplog.messages
    assert len(line) < 1100
    assert line.endswith("retrying in 4.0 s as attempt 2")


def test_the_event_goes_along_for_handlers_that_write_fields(
    logger: logging.Logger, caplog: pytest.LogCaptureFixture
) -> None:
    bus = Bus()
    logs.attach(bus, logger)
    event = events.NodeStopped(NODE, 0)
    bus.emit(event)
    assert caplog.records[0].__dict__["event"] is event


def test_an_app_that_starts_two_nodes_says_everything_once(
    logger: logging.Logger, caplog: pytest.LogCaptureFixture
) -> None:
    bus = Bus()
    logs.attach(bus, logger)
    logs.attach(bus, logger)
    bus.emit(events.NodeStopped(NODE, 0))
    assert len(caplog.messages) == 1
