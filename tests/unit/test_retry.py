"""If these fail, jobs come back too early, too late, all at once, or not at all."""

from datetime import timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from detent.errors import RemoteError
from detent.model.failure import Failure
from detent.model.retry import (
    CAUSES_SEARCHED,
    JITTER_BITS,
    MAX_ATTEMPTS,
    MAX_DELAY,
    NO_RETRY,
    Retry,
    delay_after,
    may_retry,
    merged,
)

NOTHING = timedelta(0)
SECOND = timedelta(seconds=1)

DELAYS = st.timedeltas(NOTHING, MAX_DELAY)
ATTEMPTS = st.integers(1, MAX_ATTEMPTS)
BITS = st.integers(0, (1 << JITTER_BITS) - 1)
POLICIES = st.builds(
    Retry,
    max_attempts=ATTEMPTS,
    delay=DELAYS,
    backoff=st.sampled_from(["exponential", "fixed"]),
    max_delay=DELAYS,
    jitter=st.booleans(),
)


@given(POLICIES, st.integers(-10, 1 << 40), st.integers())
def test_a_wait_is_never_negative_and_never_longer_than_allowed(
    policy: Retry, attempt: int, bits: int
) -> None:
    assert NOTHING <= delay_after(policy, attempt, bits) <= min(policy.max_delay, MAX_DELAY)


@given(DELAYS, ATTEMPTS, BITS)
def test_a_fixed_wait_is_always_the_same(delay: timedelta, attempt: int, bits: int) -> None:
    policy = Retry(delay=delay, backoff="fixed", jitter=False)
    assert delay_after(policy, attempt, bits) == delay


def test_an_exponential_wait_doubles() -> None:
    policy = Retry(delay=2 * SECOND, jitter=False)
    waits = [delay_after(policy, attempt, 0) / SECOND for attempt in range(1, 7)]
    assert waits == [2, 4, 8, 16, 32, 64]


@given(DELAYS, DELAYS, ATTEMPTS, BITS)
def test_an_exponential_wait_never_shrinks(
    delay: timedelta, max_delay: timedelta, attempt: int, bits: int
) -> None:
    policy = Retry(delay=delay, max_delay=max_delay, jitter=False)
    assert delay_after(policy, attempt, bits) <= delay_after(policy, attempt + 1, bits)


def test_a_late_attempt_waits_for_the_longest_delay() -> None:
    assert delay_after(Retry(jitter=False), MAX_ATTEMPTS, 0) == MAX_DELAY
    capped = Retry(delay=SECOND, max_delay=10 * SECOND, jitter=False)
    assert delay_after(capped, MAX_ATTEMPTS, 0) == 10 * SECOND


@given(POLICIES, ATTEMPTS, BITS)
def test_jitter_takes_at_most_half(policy: Retry, attempt: int, bits: int) -> None:
    steady = Retry(
        delay=policy.delay, backoff=policy.backoff, max_delay=policy.max_delay, jitter=False
    )
    full = delay_after(steady, attempt, bits)
    wait = delay_after(policy, attempt, bits)
    rounding = timedelta(microseconds=2)
    assert full / 2 - rounding <= wait <= full
    if not policy.jitter:
        assert wait == full


@given(BITS, BITS)
def test_more_random_bits_mean_a_longer_wait(one: int, two: int) -> None:
    policy = Retry(delay=3600 * SECOND)
    low, high = sorted((one, two))
    assert delay_after(policy, 1, low) <= delay_after(policy, 1, high)


def test_jitter_uses_the_whole_second_half() -> None:
    policy = Retry(delay=100 * SECOND, backoff="fixed")
    assert delay_after(policy, 1, 0) == 50 * SECOND
    assert delay_after(policy, 1, 1 << (JITTER_BITS - 1)) == 75 * SECOND
    assert delay_after(policy, 1, (1 << JITTER_BITS) - 1) > 99 * SECOND


@given(ATTEMPTS, DELAYS)
def test_a_users_own_rule_is_asked_with_the_failed_attempt(attempt: int, wait: timedelta) -> None:
    asked = []

    def rule(failed: int) -> timedelta:
        asked.append(failed)
        return wait

    policy = Retry(backoff=rule, jitter=False)
    assert delay_after(policy, attempt, 0) == wait
    assert asked == [attempt]


@pytest.mark.parametrize("nonsense", [None, True, "soon", timedelta(seconds=-1), -5])
def test_a_users_nonsense_falls_back_to_the_fixed_delay(nonsense: Any) -> None:
    policy = Retry(delay=7 * SECOND, backoff=lambda _: nonsense, jitter=False)
    assert delay_after(policy, 3, 0) == 7 * SECOND


def test_a_users_rule_cannot_wait_for_ever() -> None:
    policy = Retry(backoff=lambda _: timedelta.max, max_delay=60 * SECOND, jitter=False)
    assert delay_after(policy, 1, 0) == 60 * SECOND


# Whether there is another attempt


@given(st.integers(1, MAX_ATTEMPTS), ATTEMPTS)
def test_attempts_are_tried_until_the_budget_is_used_up(budget: int, attempt: int) -> None:
    assert may_retry(Retry(max_attempts=budget), attempt, OSError()) is (attempt < budget)


def test_no_retry_means_one_attempt() -> None:
    assert not may_retry(NO_RETRY, 1, OSError())


def test_an_error_that_is_never_retried() -> None:
    policy = Retry(never=(LookupError,))
    assert not may_retry(policy, 1, KeyError("a subclass"))
    assert may_retry(policy, 1, ValueError())
    assert may_retry(policy, 1, None)


@given(st.integers(0, 2 * CAUSES_SEARCHED))
def test_a_cause_that_is_never_retried_counts_too(depth: int) -> None:
    error: BaseException = LookupError()
    for _ in range(depth):
        outer = RuntimeError()
        outer.__cause__ = error
        error = outer
    assert may_retry(Retry(never=(LookupError,)), 1, error) is (depth >= CAUSES_SEARCHED)


def test_errors_that_cause_each_other_come_to_an_end() -> None:
    one, two = RuntimeError(), RuntimeError()
    one.__cause__, two.__cause__ = two, one
    assert may_retry(Retry(never=(LookupError,)), 1, one)


# Construction


@pytest.mark.parametrize(
    "field, value",
    [
        ("max_attempts", 0),
        ("max_attempts", -1),
        ("max_attempts", MAX_ATTEMPTS + 1),
        ("delay", -SECOND),
        ("delay", MAX_DELAY + SECOND),
        ("max_delay", -SECOND),
        ("max_delay", MAX_DELAY + SECOND),
        ("backoff", "linear"),
    ],
)
def test_a_value_that_cannot_be_right_is_refused_by_name(field: str, value: Any) -> None:
    with pytest.raises(ValueError, match=rf"Retry\({field}=") as refused:
        Retry(**{field: value})
    assert str(value) in str(refused.value)


@pytest.mark.parametrize(
    "field, value",
    [
        ("max_attempts", "5"),
        ("max_attempts", 5.0),
        ("max_attempts", True),
        ("delay", b"5"),
        ("max_delay", None),
        ("never", (ValueError(),)),
        ("never", (int,)),
    ],
)
def test_a_value_of_the_wrong_type_is_refused_by_name(field: str, value: Any) -> None:
    with pytest.raises(TypeError, match=rf"Retry\({field}="):
        Retry(**{field: value})


@given(POLICIES)
def test_policies_are_values(policy: Retry) -> None:
    assert policy == Retry(
        policy.max_attempts, policy.delay, policy.backoff, policy.max_delay, policy.jitter
    )
    assert hash(policy) == hash(policy)


# Which errors


def test_only_some_errors_are_retried() -> None:
    policy = Retry(only=(ConnectionError, TimeoutError))
    assert may_retry(policy, 1, ConnectionResetError())
    assert not may_retry(policy, 1, ValueError())
    wrapped = RuntimeError()
    wrapped.__cause__ = TimeoutError()
    assert may_retry(policy, 1, wrapped), "what it was raised from counts"
    assert may_retry(policy, 1, None), "an end without an error is nobody's choice"
    both = policy.replace(never=(ConnectionResetError,))
    assert not may_retry(both, 1, ConnectionResetError()), "never is stronger"
    assert may_retry(both, 1, ConnectionRefusedError())


def test_a_function_may_decide() -> None:
    policy = Retry(retry_if=lambda error: "again" in str(error))
    assert may_retry(policy, 1, ValueError("try again"))
    assert not may_retry(policy, 1, ValueError("no"))
    assert not may_retry(policy.replace(only=OSError), 1, ValueError("try again"))

    def broken(error: BaseException) -> bool:
        raise RuntimeError("the rule itself")

    assert may_retry(Retry(retry_if=broken), 1, ValueError()), "a bad rule loses no job"


def test_an_error_of_a_child_process_was_compared_there() -> None:
    policy = Retry(only=(ConnectionError,))
    failure = Failure("ConnectionResetError", "gone", "")
    assert may_retry(policy, 1, RemoteError(failure, "builtins.ConnectionResetError", never=False))
    assert not may_retry(policy, 1, RemoteError(failure, "x.Own", never=True))


@given(POLICIES)
def test_replacing_changes_what_it_names_and_nothing_else(policy: Retry) -> None:
    changed = policy.replace(max_attempts=3)
    assert changed.max_attempts == 3
    assert changed.replace(max_attempts=policy.max_attempts) == policy


def test_the_policy_of_one_job_keeps_what_only_its_task_can_say() -> None:
    declared = Retry(max_attempts=9, never=(KeyError,), only=(LookupError,), retry_if=bool)
    own = merged(Retry(max_attempts=2), declared)
    assert own == Retry(max_attempts=2, never=(KeyError,), only=(LookupError,), retry_if=bool)


@given(st.floats(0, 86_400), st.sampled_from(["s", "m", "h"]))
def test_waits_may_be_numbers_and_texts(seconds: float, unit: str) -> None:
    assert Retry(delay=seconds).delay == timedelta(seconds=seconds)
    length = {"s": timedelta(seconds=1), "m": timedelta(minutes=1), "h": timedelta(hours=1)}[unit]
    assert Retry(max_delay=f"2{unit}").max_delay == 2 * length
    assert delay_after(Retry(backoff=lambda _: "3s", jitter=False), 1, 0) == 3 * SECOND


@pytest.mark.parametrize(
    "wrong", [{"only": (42,)}, {"retry_if": "often"}, {"delay": "soon"}, {"delay": -1}]
)
def test_what_makes_no_policy_is_refused(wrong: Any) -> None:
    with pytest.raises((TypeError, ValueError), match=rf"Retry\({next(iter(wrong))}=\.\.\.\)"):
        Retry(**wrong)
