"""If these fail, a rate limit lets too many pass, or keeps back what it should grant."""

import math
from datetime import timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from detent.model.rates import NOTHING_TAKEN, Algorithm, Grants, Rate, matters_until, take

SECOND = timedelta(seconds=1)
# Moments on a grid of milliseconds: windows of a second begin and end exactly on it.
steps = st.lists(st.tuples(st.integers(0, 2_000), st.integers(1, 4)), min_size=1, max_size=120)
counts = st.integers(1, 12)


def play(rate: Rate, wishes: list[tuple[int, int]]) -> list[tuple[float, int, bool]]:
    """Return when how many were wanted, and whether they were granted."""
    now, grants, seen = 1000.0, NOTHING_TAKEN, []
    for wait, count in wishes:
        now += wait / 1000
        answer = take(rate, grants, count, now)
        grants = answer.grants
        seen.append((now, count, answer.granted))
    return seen


@given(counts, st.integers(1, 20), steps)
def test_a_bucket_never_gives_more_than_burst_and_what_flowed_in(
    count: int, burst: int, wishes: list[tuple[int, int]]
) -> None:
    seen = play(Rate(count, SECOND, burst), wishes)
    for index, (begin, _, _) in enumerate(seen):
        given_out = 0
        for at, wanted, granted in seen[index:]:
            given_out += wanted if granted else 0
            assert given_out <= burst + (at - begin) * count + 1e-3


@given(counts, steps)
def test_no_window_ever_holds_more_than_the_rate(count: int, wishes: list[tuple[int, int]]) -> None:
    seen = play(Rate(count, SECOND, algorithm=Algorithm.WINDOW), wishes)
    for begin, _, _ in seen:
        inside = [n for at, n, granted in seen if granted and begin <= at < begin + 1 - 1e-6]
        assert sum(inside) <= count


@given(counts, st.sampled_from(Algorithm), steps)
def test_what_was_refused_is_granted_after_the_wait_and_not_before(
    count: int, algorithm: Algorithm, wishes: list[tuple[int, int]]
) -> None:
    rate, now, grants = Rate(count, SECOND, algorithm=algorithm), 1000.0, NOTHING_TAKEN
    for wait, wanted in wishes:
        now += wait / 1000
        answer = take(rate, grants, wanted, now)
        if wanted > rate.most:
            assert (answer.granted, answer.retry_after) == (False, math.inf)
        elif not answer.granted:
            assert answer.retry_after > 0
            assert take(rate, grants, wanted, now + answer.retry_after + 1e-6).granted
            assert not take(rate, grants, wanted, now + answer.retry_after * 0.9 - 1e-6).granted
        grants = answer.grants


@given(counts, st.sampled_from(Algorithm), steps)
def test_what_is_said_to_remain_can_be_had(
    count: int, algorithm: Algorithm, wishes: list[tuple[int, int]]
) -> None:
    rate, now, grants = Rate(count, SECOND, algorithm=algorithm), 1000.0, NOTHING_TAKEN
    for wait, wanted in wishes:
        now += wait / 1000
        answer = take(rate, grants, wanted, now)
        grants = answer.grants
        assert take(rate, grants, answer.remaining + 1, now).granted is False
        if answer.remaining:
            assert take(rate, grants, answer.remaining, now).granted


def test_a_full_bucket_is_forgotten_and_begins_full() -> None:
    rate = Rate(10, SECOND, burst=5)
    answer = take(rate, NOTHING_TAKEN, 5, 50.0)
    assert (answer.granted, answer.remaining) == (True, 0)
    assert matters_until(rate, answer.grants) > 50.4
    assert matters_until(rate, answer.grants) <= 50.6
    assert take(rate, NOTHING_TAKEN, 5, 50.6).granted


def test_a_window_is_forgotten_when_its_last_grant_is_over() -> None:
    rate = Rate(2, SECOND, algorithm=Algorithm.WINDOW)
    answer = take(rate, NOTHING_TAKEN, 2, 50.0)
    assert answer.grants == Grants(taken=((50.0, 2),))
    assert take(rate, answer.grants, 1, 50.9).retry_after == pytest.approx(0.1)
    assert matters_until(rate, answer.grants) > 50.9
    assert matters_until(rate, answer.grants) <= 51.0


def test_a_window_has_no_burst() -> None:
    with pytest.raises(ValueError, match=r"Rate\(burst=5\)"):
        Rate(10, SECOND, burst=5, algorithm=Algorithm.WINDOW)


@pytest.mark.parametrize(
    "rate, burst, in_a_second",
    [
        (Rate(5), 1, 6),
        (Rate(5, burst=5), 5, 10),
        (Rate(1, timedelta(minutes=1)), 1, 1),
        (Rate(100), 5, 105),
        (Rate(1000, algorithm=Algorithm.WINDOW), None, 1000),
    ],
)
def test_what_burst_adds(rate: Rate, burst: int | None, in_a_second: int) -> None:
    now, grants, passed = 1000.0, NOTHING_TAKEN, 0
    for step in range(1_001):
        while (taken := take(rate, grants, 1, now + step / 1_000)).granted:
            grants, passed = taken.grants, passed + 1
    assert rate.burst == burst
    # A window ends where it began: what came at its first moment has left at its last.
    assert passed == (in_a_second if rate.algorithm is Algorithm.BUCKET else 2_000)
