"""If these fail, people are told a wrong time, or their own is read wrong."""

from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from detent.cli.moments import age, ago, iso, now, read_moment, read_time, span
from detent.cli.output import Column, _fitting, one_line

NOON = datetime(2026, 8, 1, 12, tzinfo=UTC)


@pytest.mark.parametrize(
    "seconds, long, short",
    [
        (0, "0s", "0s"),
        (0.0004, "0.4ms", "0s"),
        (0.35, "350ms", "0s"),
        (1, "1s", "1s"),
        (2.345, "2.35s", "2s"),
        (59.6, "1m", "59s"),
        (60, "1m", "1m"),
        (200, "3m 20s", "3m"),
        (3600, "1h", "1h"),
        (7500, "2h 5m", "2h"),
        (7204, "2h", "2h"),
        (90_000, "1d 1h", "1d"),
    ],
)
def test_lengths_of_time(seconds: float, long: str, short: str) -> None:
    assert span(timedelta(seconds=seconds)) == long
    assert age(timedelta(seconds=seconds)) == short


def test_before_and_after() -> None:
    assert ago(NOON, NOON) == "0s ago"
    assert ago(NOON - timedelta(minutes=5), NOON) == "5m ago"
    assert ago(NOON + timedelta(seconds=0.1), NOON) == "in 1s"
    assert ago(NOON + timedelta(days=3), NOON) == "in 3d"


@pytest.mark.parametrize(
    "text, moment",
    [
        ("2026-08-01T12:00Z", NOON),
        ("2026-08-01 14:00+02:00", NOON),
        (" 2026-08-01T12:00:00.000Z ", NOON),
    ],
)
def test_times_are_read(text: str, moment: datetime) -> None:
    assert read_time(text) == read_moment(text) == moment


def test_a_time_without_a_zone_is_local() -> None:
    assert read_time("2026-08-01 12:00") == datetime(2026, 8, 1, 12).astimezone()


def test_a_length_is_that_long_ago() -> None:
    before = now()
    assert before - timedelta(hours=1) <= read_moment("1h") <= now() - timedelta(hours=1)


@pytest.mark.parametrize("text", ["", "yesterday", "-1h", "2026-13-01", "999999999d"])
def test_what_is_no_time_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="must be a length of time"):
        read_moment(text)


@given(st.datetimes(timezones=st.just(UTC), min_value=datetime(1970, 1, 2)))  # noqa: DTZ001  the strategy adds the zone
def test_what_is_printed_can_be_read(moment: datetime) -> None:
    printed = iso(moment)
    assert printed is not None
    assert abs(read_time(printed) - moment) < timedelta(milliseconds=1)


@given(st.text())
def test_a_line_stays_a_line(text: str) -> None:
    line = one_line(text)
    assert len(line.splitlines()) <= 1
    assert line.isprintable()


@given(st.text(), st.integers(2, 20))
def test_a_line_keeps_to_its_limit(text: str, limit: int) -> None:
    assert len(one_line(text, limit)) <= limit


@given(
    st.lists(
        st.tuples(st.integers(1, 60), st.booleans(), st.integers(0, 3)), min_size=1, max_size=8
    ),
    st.integers(20, 200),
)
def test_a_table_fits_or_has_given_all_it_can(
    shapes: list[tuple[int, bool, int]], limit: int
) -> None:
    columns = [Column("same", shrinks=shrinks, drops=drops) for _, shrinks, drops in shapes]
    natural = [width for width, _, _ in shapes]
    widths = _fitting(columns, natural, limit)
    needed = sum(natural) + 2 * (len(natural) - 1)
    if needed <= limit:
        assert widths == dict(enumerate(natural))
    assert all(number in widths for number, column in enumerate(columns) if not column.drops)
    if sum(widths.values()) + 2 * (len(widths) - 1) > limit:
        assert not any(columns[number].drops for number in widths)
        assert all(width <= 6 for number, width in widths.items() if columns[number].shrinks)
