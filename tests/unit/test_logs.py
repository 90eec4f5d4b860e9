"""If these fail, an operator reads nothing, or something misleading, about what a node did."""

import dataclasses
import inspect
import logging
from datetime import UTC, datetime, timedelta
from uuid import UUID

import pytest

from detent import events, logs
from detent.events import Bus

JOB = UUID(int=1)
NODE = UUID(int=2)
SLOT = datetime(2030, 1, 1, 3, tzinfo=UTC)

EXAMPLES: list[tuple[object, str]] = [
    (
        events.TaskDenied(JOB, "mail.send", NODE, "[policy] deny has 'mail.*'", 30.0),
        (
            "this node may not run the task mail.send ([policy] deny has 'mail.*'): its jobs, such "
            f"as {JOB}, go back uncharged for other nodes and can be claimed again after 30 s; "
            "where no node allows the task they wait until one does"
        ),
    ),
    (
        events.SealTrouble(JOB, "mail.send", NODE, "no key", 30.0),
        (
            f"job {JOB} (mail.send) is encrypted and cannot run here: no key; "
            "it comes back in 30 s, nothing charged"
        ),
    ),
    (
        events.BreakerOpened("stripe", NODE, 8, 12, "OSError", 30.0),
        (
            "breaker stripe is open: 8 of the last 12 calls failed (OSError); "
            "its jobs wait uncharged until trials begin in 30.0 s"
        ),
    ),
    (
        events.BreakerOpened("stripe", NODE, 0, 0, "OSError", 60.0),
        (
            "breaker stripe is open: a trial call failed (OSError); "
            "its jobs wait uncharged until trials begin in 60.0 s"
        ),
    ),
    (
        events.BreakerOpened("stripe", None, 0, 0, "audit", None),
        (
            "breaker stripe is open: a person opened it (audit); "
            "its jobs wait uncharged until somebody resets it"
        ),
    ),
    (
        events.BreakerHalfOpen("stripe", NODE, 3),
        (
            "breaker stripe is half-open: 3 trial calls in the whole cluster; "
            "if all pass it closes, and it opens again if one fails"
        ),
    ),
    (
        events.BreakerClosed("stripe", NODE),
        "breaker stripe is closed: all trials passed; its jobs run as usual",
    ),
    (
        events.BreakerClosed("stripe", None),
        "breaker stripe is closed: a person reset it; its jobs run as usual",
    ),
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
        events.JobSnoozed(JOB, "mail.send", "mail", 1, NODE, 60.0, "breaker smtp is open"),
        (
            f"job {JOB} (mail.send) is held back: breaker smtp is open; "
            "running it again in 60.0 s, nothing charged"
        ),
    ),
    (
        events.JobTimedOut(JOB, "mail.send", "mail", 1, NODE, 30.0),
        (
            f"job {JOB} (mail.send) took longer than 30 s in attempt 1 and was stopped; "
            "its retry policy decides what follows"
        ),
    ),
    (
        events.JobTimedOut(JOB, "mail.send", "mail", 1, NODE, 5.0, silent=True),
        (
            f"job {JOB} (mail.send) gave no sign of life for 5 s in attempt 1 and was stopped; "
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
        events.ExecutorTrouble(JOB, "mail.send", "process", NODE, "too many open files", 5.0),
        (
            f"the executor process could not begin job {JOB} (mail.send): too many open files; "
            "the job comes back in 5.0 s, nothing charged"
        ),
    ),
    (
        events.StuckCoroutine(JOB, "mail.send", NODE),
        (
            f"the coroutine of job {JOB} (mail.send) goes on although it was canceled; "
            "its result will be refused and it keeps its slot until it returns"
        ),
    ),
    (
        events.NodeReplaced(NODE, "thread", 3, 4),
        (
            f"on node {NODE} 3 of 4 calls of thread go on long after their jobs have ended; "
            "it drains, for a fresh process to take its place"
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
        events.NodeStarted(NODE, "keeper", {}),
        f"node keeper ({NODE}) started; it claims no jobs",
    ),
    (
        events.TasksUnreached(NODE, {"send": "the queue mail", "draw": "gpu"}),
        (
            f"node {NODE} will not run 2 tasks of its app: send (needs the queue mail), "
            "draw (needs gpu); other nodes must, or --queues has to name their queues"
        ),
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
        events.WakeupsLost("Connection refused"),
        "no wake-ups reach this node: Connection refused; jobs wait for its next poll",
    ),
    (
        events.WakeupsRestored(),
        "wake-ups reach this node again; jobs start at once",
    ),
    (
        events.FinishGaveUp(JOB, "mail.send", "gone"),
        (
            f"the end of job {JOB} (mail.send) could not be written: gone; "
            "the run counts as a failed attempt, or as a crash if its node ends first"
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
        events.HistoryLost(NODE, "2 claims of jobs that run here are gone"),
        (
            "history was lost: 2 claims of jobs that run here are gone; the store has forgotten "
            "what it acknowledged, so jobs may be missing and others run again"
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
        events.Pruned(1234, 5, 1, 0, 2.04),
        (
            "retention deleted 1234 ended jobs, archived 5 ended jobs, removed 1 expired key in "
            "2.0 s; the rest stays for its time"
        ),
    ),
    (
        events.NodeDied(NODE, "web-1", "host-1", 4711),
        (
            f"node web-1 ({NODE}, pid 4711 on host-1) died: its lease ran out; "
            "its jobs go back to be claimed by others"
        ),
    ),
    (
        events.JobRescued(JOB, "mail.send", "mail", NODE, "pending", 1),
        (f"job {JOB} (mail.send) was held by node {NODE}, which died; it runs again, uncharged"),
    ),
    (
        events.ClaimOrphaned(JOB, "mail", NODE, 7),
        (
            f"job {JOB} of queue mail was claimed by node {NODE}, but its row in the table of jobs "
            "is missing; the claim was removed with its permits and keys"
        ),
    ),
    (
        events.LoopBlocked(NODE, 1.25, JOB, "mail.send", "mail.py:7 in send"),
        (
            f"job {JOB} (mail.send) has kept the event loop from going on for 1250 ms, and nothing "
            'else runs on this node; make it a plain def, or executor="process". '
            "It is at mail.py:7 in send"
        ),
    ),
    (
        events.ProcessHeldUp(NODE, 4.52, JOB, "mail.send", ["mail.send", "mail.sort"]),
        (
            f"the whole process was held up for 4.5 s, its heartbeat too, by C code in job {JOB} "
            '(mail.send), which executor="process" would keep apart; '
            "or the process or its machine was stopped"
        ),
    ),
    (
        events.ProcessHeldUp(None, 4.52, None, None, ["mail.send", "mail.sort"]),
        (
            "the whole process was held up for 4.5 s, its heartbeat too, by C code in a job of "
            'mail.send, mail.sort, which executor="process" would keep apart; '
            "or the process or its machine was stopped"
        ),
    ),
    (
        events.ProcessHeldUp(None, 4.52, None, None, []),
        (
            "the whole process was held up for 4.5 s, its heartbeat too; "
            "the process or its machine was stopped"
        ),
    ),
    (
        events.LeaderElected(NODE, "maintenance", 3),
        f"node {NODE} leads maintenance now, in term 3; others stand by",
    ),
    (
        events.LeaderLost(NODE, "maintenance", 3, "web-2 leads now"),
        (
            f"node {NODE} no longer leads maintenance (term 3): web-2 leads now; "
            "nothing is written under that term any more"
        ),
    ),
    (
        events.LeaderResigned(NODE, "maintenance", 3),
        f"node {NODE} gave up maintenance (term 3); others are told to follow",
    ),
    (
        events.DaemonStarted(NODE, "feed", 3),
        f"daemon feed (term 3) started on node {NODE}; it runs nowhere else",
    ),
    (
        events.DaemonEnded(NODE, "feed", 3, "OSError: gone", 1.5),
        "daemon feed (term 3) failed: OSError: gone; starting it again in 1.5 s",
    ),
    (
        events.DaemonEnded(NODE, "feed", 3, None, 1.5),
        "daemon feed (term 3) returned; starting it again in 1.5 s",
    ),
    (
        events.DaemonStopped(NODE, "feed", 3, "the node drains"),
        f"daemon feed (term 3) stopped on node {NODE}: the node drains; another may run it",
    ),
    (
        events.DaemonStuck(NODE, "feed", 3),
        (
            "daemon feed (term 3) goes on although it was told to stop; what it writes under its "
            "term is refused, and it is not started here again before it ends"
        ),
    ),
    (events.DaemonSaid(NODE, "feed", 3, "info", "connected"), "daemon feed (term 3): connected"),
    (
        events.LockWasLost("import", 7, "it was taken away"),
        ("the lock 'import' (fence 7) is lost: it was taken away; somebody else may hold it now"),
    ),
    (
        events.JobEnqueued(JOB, "mail.send", "mail", 2),
        f"job {JOB} (mail.send) was enqueued to mail; a node will take it",
    ),
    (
        events.ListenerOverflow("tell_crm", 14),
        ("the listener tell_crm is too slow: it missed 14 events; work goes on without it"),
    ),
    (
        events.SinkTrouble("billing", "HTTP 503"),
        "the sink billing takes no events: HTTP 503; they wait and are tried again",
    ),
    (
        events.SinkRecovered("billing"),
        "the sink billing takes events again; what waits is delivered",
    ),
    (
        events.EventDelivered(7, "billing", JOB, 2),
        (f"event 7 (job {JOB}) for the sink billing was delivered at try 2; it leaves the outbox"),
    ),
    (
        events.EventPutOff(7, "billing", JOB, 2, "HTTP 503", 4.0),
        (
            f"event 7 (job {JOB}) for the sink billing was not taken at try 2: HTTP 503; "
            "trying again in 4.0 s"
        ),
    ),
    (
        events.EventUndeliverable(7, "billing", JOB, 16, "HTTP 404"),
        (
            f"event 7 (job {JOB}) for the sink billing is given up after 16 tries: HTTP 404; "
            "it stays in the outbox: detent outbox list, detent outbox retry"
        ),
    ),
    (
        events.AlertRaised(3, JOB, "mail.send", "OSError: no route", 14),
        (
            "alert 3: jobs of mail.send fail for good, 14 so far, "
            f"the first was {JOB}: OSError: no route; more of the same are only counted"
        ),
    ),
    (
        events.HookFailed("on_start", "ValueError: x"),
        "the hook on_start failed: ValueError: x; going on without it",
    ),
    (
        events.ScheduleDeclared("nightly", True, SLOT, ()),
        "schedule nightly is new; next: 2030-01-01 03:00:00+00:00",
    ),
    (
        events.ScheduleDeclared("nightly", False, None, ("overlap", "trigger")),
        (
            "schedule nightly has changed in code; overlap, trigger as an operator wants it; "
            "it has no slot"
        ),
    ),
    (
        events.ScheduleRemoved("nightly", 660.0),
        (
            "schedule nightly was removed: for 11 min no running node has declared it; "
            "jobs that it fired go on"
        ),
    ),
    (
        events.ScheduleFired("nightly", SLOT, JOB, NODE, 0.25),
        (f"schedule nightly fired for 2030-01-01 03:00:00+00:00, 0.2 s late; job {JOB} will run"),
    ),
    (
        events.SlotsSkipped("nightly", 1, SLOT, SLOT, "overlap"),
        (
            "schedule nightly left out 1 slot (2030-01-01 03:00:00+00:00): "
            "a job of an earlier slot still lived; the next one comes"
        ),
    ),
    (
        events.SlotsSkipped("nightly", 3, SLOT, SLOT + timedelta(days=2), "misfire"),
        (
            "schedule nightly left out 3 slots (2030-01-01 03:00:00+00:00 to "
            "2030-01-03 03:00:00+00:00): nobody was there in time; the next one comes"
        ),
    ),
    (
        events.ScheduleTrouble("nightly", "there is no calendar 'holidays'"),
        ("schedule nightly needs somebody: there is no calendar 'holidays'; the others go on"),
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
    # What people write themselves ends as they like.
    assert ";" in line or isinstance(event, events.DaemonSaid)


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


def test_what_a_daemon_says_is_as_loud_as_it_wants(
    logger: logging.Logger, caplog: pytest.LogCaptureFixture
) -> None:
    bus = Bus()
    logs.attach(bus, logger)
    for severity in ("debug", "info", "warning", "error"):
        bus.emit(events.DaemonSaid(NODE, "feed", 3, severity, "something"))
    loud = [record.levelname for record in caplog.records]
    assert loud == ["DEBUG", "INFO", "WARNING", "ERROR"]


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
