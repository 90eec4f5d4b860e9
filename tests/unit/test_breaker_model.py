"""If these fail, a circuit breaker opens too late or too early, or lets too many trials pass."""

from collections import deque
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from detent import Fail, RetryAfter
from detent.errors import RemoteError
from detent.executors.frames import Raised
from detent.executors.remote import retold, tell
from detent.model.breaker import LONGEST, Breaker, Verdict, verdict_of
from detent.model.calls import SLICES, Calls
from detent.model.circuit import (
    Circuit,
    Phase,
    ask,
    count,
    force_open,
    is_too_much,
    judge,
    renew,
    reset,
)
from detent.model.failure import Failure
from detent.model.outcome import Ending, Outcome
from detent.model.retry import NO_RETRY
from detent.spi.breakers import BreakerRow

NOW = datetime(2026, 3, 1, tzinfo=UTC)
SECOND = timedelta(seconds=1)
LEASE = 15 * SECOND

verdicts = st.lists(st.lists(st.booleans(), max_size=12), max_size=40)


@given(st.integers(1, 30), verdicts)
def test_a_window_of_calls_is_exactly_the_last_ones(window: int, reports: list[list[bool]]) -> None:
    breaker = Breaker(window=window, minimum=1)
    calls, last = Calls(), deque[bool](maxlen=window)
    for report in reports:
        calls = calls.add(breaker, report, NOW)
        last.extend(report)
        assert (calls.total, calls.failed) == (len(last), sum(last))


@given(st.lists(st.tuples(st.integers(0, 30), st.booleans()), max_size=60))
def test_a_window_of_time_forgets_what_is_older(steps: list[tuple[int, bool]]) -> None:
    """What is younger than the window less a slice is there; what is older than it is not."""
    window = timedelta(seconds=20)
    breaker, calls, now = Breaker(window=window, minimum=1), Calls(), NOW
    seen = list[tuple[datetime, bool]]()
    for wait, failed in steps:
        now += wait * SECOND / 4
        calls = calls.add(breaker, [failed], now)
        seen.append((now, failed))
        certain = [failed for at, failed in seen if at > now - window + window / SLICES]
        possible = [failed for at, failed in seen if at > now - window]
        assert len(certain) <= calls.total <= len(possible)
        assert sum(certain) <= calls.failed <= sum(possible)


def test_settings_that_changed_the_kind_of_window_begin_anew() -> None:
    counted = Calls().add(Breaker(), [True] * 5, NOW)
    timed = counted.add(Breaker(window=timedelta(seconds=10)), [True], NOW)
    assert (timed.total, timed.last) == (1, "")
    assert timed.add(Breaker(), [False], NOW) == Calls(last=".")
    ahead = timed.add(Breaker(window=timedelta(seconds=10)), [True], NOW - timedelta(hours=1))
    assert ahead.total == 1, "after a clock was put back"


@given(
    st.floats(0.01, 1.0),
    st.integers(1, 20),
    st.integers(0, 20),
    st.lists(st.lists(st.booleans(), max_size=5), max_size=40),
)
def test_it_opens_with_the_first_report_that_is_too_much(
    rate: float, minimum: int, more: int, reports: list[list[bool]]
) -> None:
    breaker = Breaker(failure_rate=rate, minimum=minimum, window=minimum + more)
    circuit, last = Circuit(), deque[bool](maxlen=minimum + more)
    for report in reports:
        before, circuit = circuit, count(circuit, breaker, report, NOW, "OSError")
        if before.phase is Phase.OPEN:
            assert circuit is before, "an open breaker counts nothing"
            continue
        last.extend(report)
        too_much = bool(report) and len(last) >= minimum and sum(last) >= rate * len(last)
        assert (circuit.phase is Phase.OPEN) == too_much
        if too_much:
            assert (circuit.epoch, circuit.since, circuit.reason) == (1, NOW, "OSError")
            assert circuit.half_open_at == NOW + breaker.wait
            assert is_too_much(breaker, circuit.calls), "what it saw is kept, to be looked at"


ACTIONS = st.one_of(
    st.tuples(st.just("ask"), st.integers(0, 9)),
    st.tuples(st.just("pass"), st.integers(0, 9)),
    st.tuples(st.just("fail"), st.integers(0, 9)),
    st.tuples(st.just("neither"), st.integers(0, 9)),
    st.tuples(st.just("renew"), st.integers(0, 9)),
    st.tuples(st.just("wait"), st.integers(1, 20)),
)
SAYS = {"pass": Verdict.PASSED, "fail": Verdict.FAILED, "neither": Verdict.NEITHER}


@given(st.integers(1, 4), st.lists(ACTIONS, max_size=80))
def test_never_more_trials_than_it_says(trials: int, actions: list[tuple[str, int]]) -> None:
    """In one half-open time: those that run and those that passed are never more than `trials`."""
    breaker = Breaker(trials=trials, minimum=1, wait=10 * SECOND, max_wait=40 * SECOND)
    now, circuit = NOW, count(Circuit(), breaker, [True], NOW, "")
    running = dict[str, tuple[int, datetime]]()
    passed = dict[int, int]()
    for action, number in actions:
        permit = f"job {number}"
        if action == "wait":
            now += number * SECOND
        elif action == "ask":
            answer = ask(circuit, breaker, permit, now, LEASE)
            circuit = answer.circuit
            assert answer.admitted or answer.wait > timedelta(0)
            if answer.admitted and circuit.phase is Phase.HALF_OPEN:
                running[permit] = (circuit.epoch, now + LEASE)
        elif action == "renew":
            renewed = renew(circuit, [permit], now, LEASE)
            if renewed != circuit:
                running[permit] = (circuit.epoch, now + LEASE)
            circuit = renewed
        else:
            before = circuit
            circuit = judge(circuit, breaker, permit, SAYS[action], now, "OSError")
            if action == "fail" and before.phase is Phase.HALF_OPEN and permit in before.permits:
                assert circuit.phase is Phase.OPEN, "any failure reopens"
                assert circuit.reopened == before.reopened + 1
            if action == "pass" and permit in before.permits:
                passed[before.epoch] = passed.get(before.epoch, 0) + 1
                assert (circuit.phase is Phase.CLOSED) == (passed[before.epoch] == trials)
            running.pop(permit, None)
        alive = [
            key
            for key, (epoch, until) in running.items()
            if epoch == circuit.epoch and until > now and key in circuit.permits
        ]
        assert len(alive) + circuit.passed <= trials
        row = BreakerRow.of("b", 1, circuit)
        assert row.circuit == circuit, "it can be stored"


def test_each_reopening_waits_twice_as_long_up_to_the_longest() -> None:
    breaker = Breaker(minimum=1, trials=1, wait=10 * SECOND, max_wait=35 * SECOND)
    now, waits = NOW, list[float]()
    circuit = count(Circuit(), breaker, [True], now, "")
    for _ in range(4):
        assert circuit.half_open_at is not None
        waits.append((circuit.half_open_at - now).total_seconds())
        now = circuit.half_open_at
        circuit = ask(circuit, breaker, "t", now, LEASE).circuit
        circuit = judge(circuit, breaker, "t", Verdict.FAILED, now, "OSError")
    assert waits == [10, 20, 35, 35]
    assert circuit.half_open_at is not None
    circuit = ask(circuit, breaker, "t", circuit.half_open_at, LEASE).circuit
    circuit = judge(circuit, breaker, "t", Verdict.PASSED, now, "")
    assert (circuit.phase, circuit.reopened) == (Phase.CLOSED, 0)
    again = count(circuit, breaker, [True], now, "")
    assert again.half_open_at == now + 10 * SECOND, "begun anew"


def test_the_longest_wait_is_bounded_without_being_given() -> None:
    assert Breaker(wait=SECOND).wait_after(10_000) == LONGEST * SECOND
    assert Breaker(wait=timedelta(hours=10)).wait_after(5) == timedelta(hours=24)


def test_a_breaker_that_a_person_opened_stays_open() -> None:
    breaker = Breaker(wait=SECOND)
    forced = force_open(Circuit(), NOW, None, "maintenance")
    later = ask(forced, breaker, "t", NOW + timedelta(days=3), LEASE)
    assert (later.admitted, later.wait, later.circuit.forced) == (False, SECOND, True)
    assert count(forced, breaker, [False] * 100, NOW, "") is forced
    closed = reset(forced, NOW)
    assert (closed.phase, closed.epoch, closed.reason) == (Phase.CLOSED, forced.epoch + 1, None)
    for_a_while = force_open(Circuit(), NOW, timedelta(minutes=1), None)
    assert not ask(for_a_while, breaker, "t", NOW + 59 * SECOND, LEASE).admitted
    assert ask(for_a_while, breaker, "t", NOW + 60 * SECOND, LEASE).admitted


class Declined(ValueError):
    """A failure of the business, not of what was called."""


def failed(error: BaseException, *, retryable: bool = True) -> Outcome:
    return Outcome(Ending.FAILED, error, retryable=retryable)


def raised_from(error: Exception, cause: Exception) -> Exception:
    error.__cause__ = cause
    return error


REMOTE = RemoteError(Failure("ConnectionResetError", "", ""), "builtins.ConnectionResetError")
REMOTE.lineage = ("builtins.ConnectionResetError", "builtins.OSError", "builtins.Exception")


@pytest.mark.parametrize(
    "settings, outcome, verdict",
    [
        ({}, Outcome(Ending.SUCCEEDED), "passed"),
        ({}, Outcome(Ending.TIMED_OUT), "failed"),
        ({"record": (KeyError,)}, Outcome(Ending.TIMED_OUT), "failed"),
        ({}, failed(OSError()), "failed"),
        ({}, failed(Fail("invoice 7 is empty"), retryable=False), "neither"),
        ({"record": (Fail,)}, failed(Fail("no"), retryable=False), "failed"),
        ({"record": (OSError,)}, failed(ConnectionError()), "failed"),
        ({"record": (OSError,)}, failed(ValueError()), "neither"),
        ({"ignore": (ValueError,)}, failed(Declined()), "neither"),
        ({"ignore": (ValueError,)}, failed(OSError()), "failed"),
        ({"record": (ValueError,), "ignore": (Declined,)}, failed(Declined()), "neither"),
        ({"record": (OSError,)}, failed(raised_from(ValueError(), OSError())), "failed"),
        ({"record": (OSError,)}, failed(REMOTE), "failed"),
        ({"record": (KeyError,)}, failed(REMOTE), "neither"),
        ({"ignore": (OSError,)}, failed(REMOTE), "neither"),
        ({}, Outcome(Ending.SNOOZED), "neither"),
        ({}, Outcome(Ending.CANCELED), "neither"),
        ({}, Outcome(Ending.RELEASED), "neither"),
    ],
)
def test_which_ends_count(settings: dict[str, Any], outcome: Outcome, verdict: str) -> None:
    assert verdict_of(Breaker(**settings), outcome) == verdict


@pytest.mark.parametrize(
    "settings, message",
    [
        ({"failure_rate": 0}, r"failure_rate=0\)"),
        ({"failure_rate": 1.01}, r"failure_rate=1.01\)"),
        ({"failure_rate": float("nan")}, r"failure_rate=nan\)"),
        ({"failure_rate": "50%"}, "failure_rate='50%'"),
        ({"failure_rate": True}, "failure_rate=True"),
        ({"window": 9, "minimum": 10}, r"window=9\).*minimum \(10\)"),
        ({"window": 0}, r"window=0\)"),
        ({"window": timedelta(0)}, "window=datetime.timedelta"),
        ({"window": 1.5}, r"window=1.5\)"),
        ({"minimum": 0}, r"minimum=0\)"),
        ({"minimum": 10_001}, r"minimum=10001\)"),
        ({"wait": timedelta(0)}, "wait="),
        ({"wait": "soon"}, r"wait='soon'\).*duration"),
        ({"wait": timedelta(days=2)}, "wait="),
        ({"wait": 30 * SECOND, "max_wait": SECOND}, r"max_wait=.*at least wait"),
        ({"trials": 0}, r"trials=0\)"),
        ({"record": OSError}, "record=.*tuple"),
        ({"ignore": ("OSError",)}, "ignore=.*exception classes, not 'OSError'"),
    ],
)
def test_settings_that_cannot_be_right_are_refused(settings: dict[str, Any], message: str) -> None:
    with pytest.raises((ValueError, TypeError), match=message):
        Breaker(**settings)


def test_profiles_can_be_changed() -> None:
    assert Breaker.default() == Breaker()
    assert Breaker.fast() == Breaker(window=20, minimum=3, wait=10 * SECOND, trials=2)
    assert Breaker.critical().failure_rate == 0.75
    assert Breaker.external_api(trials=1).trials == 1
    assert Breaker.external_api(window=80).window == 80


@pytest.mark.parametrize("body", ["", "[]", "7", '{"permits": 3}', '{"slices": [[1]]}', "{"])
def test_a_stored_body_that_cannot_be_read_counts_as_nothing(body: str) -> None:
    row = BreakerRow("b", 7, "open", NOW, NOW, body)
    assert row.circuit.phase in (Phase.CLOSED, Phase.OPEN)
    assert BreakerRow("b", 7, "molten", NOW, NOW, "{}").circuit == Circuit(epoch=7)


@pytest.mark.parametrize("error", [RetryAfter(SECOND), Declined(), Fail("no")])
def test_what_was_raised_in_a_child_process_counts_by_its_classes(error: Exception) -> None:
    told = tell(raised_from(error, ConnectionResetError()), NO_RETRY)
    told = msgspec.json.decode(msgspec.json.encode(told), type=Raised)
    there = Outcome(Ending.FAILED, retold(told, UUID(int=1)))
    assert verdict_of(Breaker(record=(OSError,)), there) is Verdict.FAILED
    assert verdict_of(Breaker(ignore=(type(error),)), there) is Verdict.NEITHER
    assert verdict_of(Breaker(record=(KeyError,)), there) is Verdict.NEITHER
