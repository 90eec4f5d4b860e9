"""If these fail, a job is retried that should have ended, or ends that should be retried."""

from datetime import timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from detent.model.moments import MAX_AHEAD
from detent.model.outcome import Decision, Ending, Outcome, decide
from detent.model.retry import JITTER_BITS, MAX_DELAY, NO_RETRY, Retry, delay_after
from detent.model.state import MOVES, State, Verb

NOTHING = timedelta(0)
FAILURES = (Ending.FAILED, Ending.TIMED_OUT)

ENDINGS = st.sampled_from(Ending)
WAITS = st.none() | st.timedeltas()
BITS = st.integers(0, (1 << JITTER_BITS) - 1)
POLICIES = st.builds(
    Retry,
    max_attempts=st.integers(1, 20),
    delay=st.timedeltas(NOTHING, MAX_DELAY),
    backoff=st.sampled_from(["exponential", "fixed"]),
    never=st.sampled_from([(), (ValueError,)]),
)
OUTCOMES = st.builds(
    Outcome,
    ending=ENDINGS,
    error=st.sampled_from([None, OSError(), ValueError()]),
    retryable=st.booleans(),
    wait=WAITS,
)
ATTEMPTS = st.integers(1, 25)

#: How the model's verbs say what a decision does to a running job.
VERB_TO = {
    State.SUCCEEDED: Verb.SUCCEED,
    State.FAILED: Verb.FAIL,
    State.CANCELED: Verb.CANCEL,
    State.PENDING: Verb.REQUEUE,
    State.WAITING: Verb.PARK,
}


@given(OUTCOMES, ATTEMPTS, POLICIES, BITS)
def test_every_decision_is_a_move_that_a_running_job_can_make(
    outcome: Outcome, attempt: int, policy: Retry, bits: int
) -> None:
    decision = decide(outcome, attempt, policy, bits)
    assert MOVES[State.RUNNING, VERB_TO[decision.state]] is decision.state


@given(OUTCOMES, ATTEMPTS, POLICIES, BITS)
def test_only_a_failure_uses_up_an_attempt(
    outcome: Outcome, attempt: int, policy: Retry, bits: int
) -> None:
    decision = decide(outcome, attempt, policy, bits)
    assert decision.charged is (outcome.ending in FAILURES)


@given(OUTCOMES, ATTEMPTS, POLICIES, BITS)
def test_a_wait_is_bounded_and_belongs_to_a_job_that_goes_back(
    outcome: Outcome, attempt: int, policy: Retry, bits: int
) -> None:
    decision = decide(outcome, attempt, policy, bits)
    if decision.delay is not None:
        assert decision.state is State.PENDING
        assert NOTHING <= decision.delay <= MAX_AHEAD


@given(OUTCOMES, ATTEMPTS, POLICIES, BITS)
def test_a_decision_depends_on_nothing_else(
    outcome: Outcome, attempt: int, policy: Retry, bits: int
) -> None:
    assert decide(outcome, attempt, policy, bits) == decide(outcome, attempt, policy, bits)


@given(st.sampled_from(FAILURES), ATTEMPTS, POLICIES, BITS)
def test_a_failure_is_retried_until_the_budget_is_used_up(
    ending: Ending, attempt: int, policy: Retry, bits: int
) -> None:
    decision = decide(Outcome(ending, OSError()), attempt, policy, bits)
    if attempt < policy.max_attempts:
        expected = Decision(State.PENDING, delay_after(policy, attempt, bits), charged=True)
    else:
        expected = Decision(State.FAILED, charged=True)
    assert decision == expected


@given(st.sampled_from(FAILURES), ATTEMPTS, BITS)
def test_an_error_that_is_never_retried_ends_the_job(
    ending: Ending, attempt: int, bits: int
) -> None:
    policy = Retry(max_attempts=100, never=(ValueError,))
    decision = decide(Outcome(ending, ValueError()), attempt, policy, bits)
    assert decision == Decision(State.FAILED, charged=True)


@given(st.sampled_from(FAILURES), WAITS, ATTEMPTS, BITS)
def test_a_task_that_gives_up_is_not_retried(
    ending: Ending, wait: timedelta | None, attempt: int, bits: int
) -> None:
    outcome = Outcome(ending, OSError(), retryable=False, wait=wait)
    policy = Retry(max_attempts=100)
    assert decide(outcome, attempt, policy, bits) == Decision(State.FAILED, charged=True)


@given(st.timedeltas(NOTHING, MAX_AHEAD), BITS)
def test_a_wait_that_the_task_asked_for_replaces_the_back_off(wait: timedelta, bits: int) -> None:
    outcome = Outcome(Ending.FAILED, OSError(), wait=wait)
    assert decide(outcome, 1, Retry(), bits) == Decision(State.PENDING, wait, charged=True)
    assert decide(outcome, 1, NO_RETRY, bits).state is State.FAILED, "but not the budget"


@given(ATTEMPTS, BITS)
def test_a_snooze_goes_on_for_ever(attempt: int, bits: int) -> None:
    snoozed = decide(Outcome(Ending.SNOOZED, wait=timedelta(minutes=1)), attempt, NO_RETRY, bits)
    assert snoozed == Decision(State.PENDING, timedelta(minutes=1))
    month = Outcome(Ending.SNOOZED, wait=timedelta(days=30))
    assert decide(month, attempt, NO_RETRY, bits).delay == timedelta(days=30), "as it asked"
    assert decide(Outcome(Ending.SNOOZED), attempt, NO_RETRY, bits).delay == NOTHING


@pytest.mark.parametrize(
    "ending, expected",
    [
        (Ending.SUCCEEDED, Decision(State.SUCCEEDED)),
        (Ending.CANCELED, Decision(State.CANCELED)),
        (Ending.RELEASED, Decision(State.PENDING)),
        (Ending.UNKNOWN_TASK, Decision(State.WAITING)),
    ],
)
@given(attempt=ATTEMPTS, policy=POLICIES, bits=BITS)
def test_other_endings_ask_no_policy(
    ending: Ending, expected: Decision, attempt: int, policy: Retry, bits: int
) -> None:
    assert decide(Outcome(ending, ValueError()), attempt, policy, bits) == expected
