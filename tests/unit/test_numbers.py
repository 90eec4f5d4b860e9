"""If these fail, a fence or a term is given twice after a part of the history was lost."""

from hypothesis import given
from hypothesis import strategies as st

from detent.model.numbers import EPOCH, next_term, raised, went_back

NUMBERS = st.builds(
    lambda epoch, count: epoch * EPOCH + count,
    st.integers(0, 5) | st.integers(0, (1 << 22) - 2),
    st.integers(0, 1_000) | st.integers(0, EPOCH - 2),
)


@given(NUMBERS, NUMBERS)
def test_a_raised_number_is_above_and_counts_on(number: int, above: int) -> None:
    found = raised(number, above)
    assert found > above
    assert found >= number
    assert found % EPOCH == number % EPOCH
    assert raised(found, above) == found, "raised twice is raised once"
    assert found < 1 << 63


@given(NUMBERS, st.integers(0, 5))
def test_terms_only_grow_in_every_epoch(last: int, epoch: int) -> None:
    term = next_term(last, epoch * EPOCH)
    assert term > last
    assert term > epoch * EPOCH
    assert term % EPOCH == last % EPOCH + 1, "the count goes on"


def test_the_first_terms_are_one_two_three() -> None:
    assert [next_term(last, 0) for last in range(3)] == [1, 2, 3]


@given(NUMBERS, st.integers(1, 3), st.integers(0, 3))
def test_a_store_that_forgot_nothing_is_not_accused(seen: int, later: int, epochs: int) -> None:
    if seen % EPOCH + later < EPOCH:
        assert not went_back(seen, seen + later + epochs * EPOCH)


@given(NUMBERS, st.integers(0, 1_000), st.integers(0, 3))
def test_a_count_that_went_back_is_seen_in_any_epoch(seen: int, lost: int, epochs: int) -> None:
    if lost <= seen % EPOCH:
        assert went_back(seen, seen - lost + epochs * EPOCH)
