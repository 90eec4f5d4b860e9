"""If these fail, idle nodes wear out their database, or busy ones keep jobs waiting."""

from datetime import timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from detent._engine.polling import Polling
from detent.config import PollingConfig

CONFIG = PollingConfig()
BURST, MINIMUM, MAXIMUM, DEEP = 0.5, 2.0, 10.0, 30.0


def idle(polling: Polling, polls: int, now: float = 0.0) -> list[float]:
    """Return the pauses after polls that found nothing, at one moment."""
    return [polling.next_pause(0, 10, 0.0, now) for _ in range(polls)]


def test_after_a_start_polls_come_in_a_burst_and_then_ever_less_often() -> None:
    assert idle(Polling(CONFIG, 0.0), 5) == [BURST, BURST, MINIMUM, 2 * MINIMUM, 4 * MINIMUM]


def test_a_wake_up_starts_another_burst() -> None:
    polling = Polling(CONFIG, 0.0)
    idle(polling, 10)
    polling.woken()
    assert idle(polling, 3) == [BURST, BURST, MAXIMUM]


def test_work_starts_another_burst() -> None:
    polling = Polling(CONFIG, 0.0)
    idle(polling, 10)
    assert polling.next_pause(1, 10, 0.0, 5.0) == BURST


def test_a_minute_without_work_is_deep_idle() -> None:
    polling = Polling(CONFIG, 0.0)
    polling.next_pause(5, 10, 0.0, 100.0)
    assert idle(polling, 6, now=159.9)[-1] == MAXIMUM
    assert idle(polling, 1, now=160.0) == [DEEP]
    polling.woken()
    assert idle(polling, 1, now=170.0) == [BURST]


def test_full_polls_make_it_look_more_often() -> None:
    config = PollingConfig(burst_polls=0)
    polling = Polling(config, 0.0)
    assert idle(polling, 5)[-1] == MAXIMUM
    pauses = [polling.next_pause(10, 10, 0.0, 1.0) for _ in range(20)]
    assert pauses[-1] == MINIMUM
    assert pauses == sorted(pauses, reverse=True)


def test_a_busy_node_polls_less_but_never_less_than_the_maximum() -> None:
    config = PollingConfig(burst_polls=0)
    quiet, busy, busier = (Polling(config, 0.0) for _ in range(3))
    half = (5, 10)
    assert quiet.next_pause(*half, 0.0, 0.0) == MINIMUM
    assert busy.next_pause(*half, 1.0, 0.0) == 2 * MINIMUM
    idle(busier, 10)
    assert busier.next_pause(0, 10, 1.0, 0.0) == MAXIMUM


def test_asking_for_nothing_is_no_division_by_zero() -> None:
    assert Polling(CONFIG, 0.0).next_pause(0, 0, 0.0, 0.0) == BURST


@given(
    st.lists(
        st.tuples(st.integers(0, 10), st.floats(0, 1), st.floats(0, 100), st.booleans()),
        max_size=50,
    ),
    st.sampled_from([PollingConfig(), PollingConfig.classic(), PollingConfig(burst_polls=0)]),
)
def test_no_pause_is_ever_outside_of_its_limits(
    polls: list[tuple[int, float, float, bool]], config: PollingConfig
) -> None:
    polling, now = Polling(config, 0.0), 0.0
    for taken, load, passed, woken in polls:
        now += passed
        if woken:
            polling.woken()
        pause = timedelta(seconds=polling.next_pause(taken, 10, load, now))
        assert config.burst <= pause <= config.deep_idle


@pytest.mark.parametrize("window", [1, 10])
def test_the_window_is_what_it_remembers(window: int) -> None:
    polling = Polling(PollingConfig(burst_polls=0, window=window), 0.0)
    for _ in range(10):
        polling.next_pause(10, 10, 0.0, 0.0)
    after = idle(polling, 2)[-1:]
    assert after == [2 * MINIMUM if window == 1 else MINIMUM]
