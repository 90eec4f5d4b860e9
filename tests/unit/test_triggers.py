"""If these fail, schedules fire at other times than their triggers say."""

from collections.abc import Callable, Iterator
from datetime import UTC, date, datetime, time, timedelta
from itertools import islice
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from detent.model.triggers import (
    CalendarInterval,
    Cron,
    DailyWindow,
    Dates,
    Interval,
    Once,
    Trigger,
    trigger_bytes,
    trigger_from,
)

ZONES = st.sampled_from(
    ["UTC", "Europe/Berlin", "Australia/Lord_Howe", "Pacific/Apia", "Asia/Beirut", "Asia/Kolkata"]
)
TIMES = st.times().map(lambda each: each.replace(microsecond=0))
STEPS = st.integers(1, 86_400).map(lambda seconds: timedelta(seconds=seconds))
DATES = st.dates(date(2001, 1, 1), date(2037, 12, 31))
WEEKDAYS = st.sets(st.sampled_from(["MON", "TUE", "WED", "THU", "FRI", "SAT", "SUN"]), min_size=1)
MOMENTS = st.datetimes(
    datetime.fromisoformat("2000-01-01"),
    datetime.fromisoformat("2037-12-31"),
    timezones=st.just(UTC),
)
WALLS = MOMENTS.map(lambda each: each.replace(tzinfo=None))
EXPRESSIONS = st.sampled_from(
    ["30 2 * * *", "*/15 * * * *", "0 9 * * MON-FRI", "H H * * *", "0 0 L * *", "*/20 * 2 * * *"]
)

TRIGGERS: st.SearchStrategy[Trigger] = st.one_of(
    st.builds(Cron, EXPRESSIONS, ZONES, st.text(max_size=5)),
    st.builds(Interval, STEPS, MOMENTS, ZONES),
    st.builds(
        CalendarInterval,
        st.integers(1, 20),
        st.sampled_from(["days", "weeks", "months", "years"]),
        TIMES,
        DATES,
        ZONES,
    ),
    st.tuples(STEPS, TIMES, TIMES, WEEKDAYS, ZONES)
    .filter(lambda fields: fields[1] != fields[2])
    .map(lambda fields: DailyWindow(fields[0], fields[1], fields[2], tuple(fields[3]), fields[4])),
    st.builds(Dates, st.lists(st.one_of(DATES, WALLS, MOMENTS), min_size=1), TIMES, ZONES),
    st.builds(Once, st.one_of(WALLS, MOMENTS), ZONES),
)


def at(text: str) -> datetime:
    return datetime.fromisoformat(text).replace(tzinfo=UTC)


def following(trigger: Trigger, after: str, count: int) -> list[str]:
    """The next slots after a moment, as text."""

    def slots() -> Iterator[str]:
        slot = trigger.next_after(at(after))
        while slot is not None:
            yield slot.strftime("%Y-%m-%d %H:%M")
            slot = trigger.next_after(slot)

    return list(islice(slots(), count))


# ------------------------------------------------------------ what holds for all of them


@settings(deadline=None)
@given(TRIGGERS, MOMENTS, st.integers(0, 10**6))
def test_the_next_slot_is_later_and_the_same_from_anywhere_before_it(
    trigger: Trigger, moment: datetime, share: int
) -> None:
    slot = trigger.next_after(moment)
    if slot is None:
        return
    assert slot > moment
    assert slot.tzinfo is UTC
    between = moment + (slot - moment) // (10**6 + 1) * share
    assert trigger.next_after(between) == slot
    assert trigger.next_after(slot - timedelta(microseconds=1)) == slot


@settings(deadline=None)
@given(TRIGGERS)
def test_a_stored_trigger_is_read_back_equal(trigger: Trigger) -> None:
    assert trigger_from(trigger.to_data()) == trigger
    stored = trigger_bytes(trigger)
    again = trigger_from(stored)
    assert again == trigger
    assert trigger_bytes(again) == stored
    assert again.describe() == trigger.describe()
    assert trigger.timezone in again.describe() or isinstance(trigger, Interval)


@settings(deadline=None)
@given(TRIGGERS, st.sampled_from([0, 1, -1]))
def test_the_end_of_time_is_no_error(trigger: Trigger, days: int) -> None:
    last = datetime.max.replace(tzinfo=UTC) - timedelta(days=2 + days)
    found = trigger.next_after(last)
    assert found is None or found > last


# ------------------------------------------------------------ intervals


def test_an_interval_keeps_its_phase() -> None:
    every = Interval(timedelta(minutes=15))
    assert following(every, "2026-11-15 20:07:31", 2) == ["2026-11-15 20:15", "2026-11-15 20:30"]
    anchored = Interval(timedelta(hours=5), at("2026-11-15 01:30"))
    assert following(anchored, "2026-11-14 00:00", 2) == ["2026-11-15 01:30", "2026-11-15 06:30"]
    local = Interval(timedelta(days=1), datetime.fromisoformat("2026-03-28 12:00"), "Europe/Berlin")
    assert following(local, "2026-03-27", 2) == ["2026-03-28 11:00", "2026-03-29 11:00"]


def test_a_month_after_january_31_is_the_end_of_february_and_march_has_31_days_again() -> None:
    monthly = CalendarInterval(1, "months", at=time(9), start=date(2026, 1, 31))
    assert following(monthly, "2026-01-01", 5) == [
        "2026-01-31 09:00",
        "2026-02-28 09:00",
        "2026-03-31 09:00",
        "2026-04-30 09:00",
        "2026-05-31 09:00",
    ]
    yearly = CalendarInterval(1, "years", start=date(2024, 2, 29))
    assert [slot[:10] for slot in following(yearly, "2024-02-01", 5)] == [
        "2024-02-29",
        "2025-02-28",
        "2026-02-28",
        "2027-02-28",
        "2028-02-29",
    ]


def test_weeks_are_counted_from_the_first_one() -> None:
    fortnight = CalendarInterval(2, "weeks", at=time(8, 30), start=date(2026, 11, 3))
    assert following(fortnight, "2026-11-15", 2) == ["2026-11-17 08:30", "2026-12-01 08:30"]
    by_itself = CalendarInterval(1, "weeks")
    assert following(by_itself, "2026-11-15", 1) == ["2026-11-16 00:00"]  # A Monday.


@settings(deadline=None)
@given(
    st.integers(1, 40),
    st.sampled_from(["days", "weeks", "months", "years"]),
    TIMES,
    DATES,
    ZONES,
    MOMENTS,
)
def test_a_calendar_interval_equals_counting_from_its_start(
    every: int, unit: str, clock: time, start: date, zone: str, moment: datetime
) -> None:
    trigger = CalendarInterval(every, unit, clock, start, zone)
    slot = trigger.next_after(at(str(start)) - timedelta(days=2))
    number = 0
    while slot is not None and slot <= moment and number < 50:
        following_slot = trigger.next_after(slot)
        assert following_slot is not None
        assert following_slot > slot
        slot, number = following_slot, number + 1
    if number < 50:
        assert trigger.next_after(max(moment, at(str(start)) - timedelta(days=2))) == slot


# ------------------------------------------------------------ windows


def test_a_window_begins_anew_each_day_and_includes_its_end() -> None:
    window = DailyWindow(timedelta(hours=3), time(9), time(18), ("MON", "FRI"))
    assert following(window, "2026-11-15", 5) == [
        "2026-11-16 09:00",
        "2026-11-16 12:00",
        "2026-11-16 15:00",
        "2026-11-16 18:00",
        "2026-11-20 09:00",
    ]


def test_a_window_may_go_on_over_midnight() -> None:
    window = DailyWindow(timedelta(hours=2), time(22), time(3), ("sunday",))
    assert following(window, "2026-11-15 22:00", 3) == [
        "2026-11-16 00:00",
        "2026-11-16 02:00",
        "2026-11-22 22:00",
    ]


def test_a_window_counts_real_time_through_a_fold_and_starts_after_a_gap() -> None:
    window = DailyWindow(timedelta(minutes=30), time(2), time(3), timezone="Europe/Berlin")
    assert following(window, "2026-10-25 00:00", 5) == [
        # 02:00 was shown at 00:00 UTC; then 02:30, 02:00 and 02:30 again, and 03:00.
        "2026-10-25 00:30",
        "2026-10-25 01:00",
        "2026-10-25 01:30",
        "2026-10-25 02:00",
        "2026-10-26 01:00",
    ]
    # The window lies in the gap: it leaves one slot at the end of it.
    lost = DailyWindow(timedelta(minutes=10), time(2), time(2, 30), timezone="Europe/Berlin")
    assert following(lost, "2026-03-28 12:00", 2) == ["2026-03-29 01:00", "2026-03-30 00:00"]


# ------------------------------------------------------------ dates


def test_dates_come_in_their_order_and_once() -> None:
    dates = Dates(
        [
            date(2026, 12, 31),
            date(2026, 12, 24),
            datetime.fromisoformat("2026-12-24 18:00"),
            at("2027-01-01 05:00"),
        ],
        at=time(18),
        timezone="Europe/Berlin",
    )
    assert following(dates, "2026-11-15", 9) == [
        "2026-12-24 17:00",
        "2026-12-31 17:00",
        "2027-01-01 05:00",
    ]


def test_once_is_once() -> None:
    once = Once(datetime.fromisoformat("2026-03-29 02:30"), "Europe/Berlin")
    assert following(once, "2026-01-01", 9) == ["2026-03-29 01:00"]
    assert once.next_after(at("2026-03-29 01:00")) is None


# ------------------------------------------------------------ words


@pytest.mark.parametrize(
    "trigger, words",
    [
        (Cron("0 9 * * MON-FRI", "Europe/Berlin"), "at 09:00 on Monday to Friday, Europe/Berlin"),
        (Cron("@daily"), "at 00:00 every day, UTC"),
        (Cron("*/15 * * * *"), "every 15th minute of every hour, UTC"),
        (Interval(timedelta(minutes=15)), "every 15 minutes"),
        (Interval(timedelta(hours=1)), "every hour"),
        (Interval(timedelta(seconds=1.5)), "every 1.5 seconds"),
        (
            Interval(timedelta(days=1, hours=2), at("2026-11-15 08:00"), "Asia/Tokyo"),
            "every 1 day 2 hours from 2026-11-15 17:00:00, Asia/Tokyo",
        ),
        (Cron("0 9 13,31 * *"), "at 09:00 on the 13th and the 31st of the month, UTC"),
        (CalendarInterval(1, "days", time(9)), "every day at 09:00, UTC"),
        (CalendarInterval(1, "weeks"), "every week on Monday at 00:00, UTC"),
        (
            CalendarInterval(3, "months", time(9, 30), date(2026, 1, 31)),
            "every 3 months on day 31 (or the last of the month) at 09:30 from 2026-01-31, UTC",
        ),
        (CalendarInterval(1, "years"), "every year on January 1 at 00:00, UTC"),
        (
            DailyWindow(timedelta(minutes=15), time(9), time(17, 0, 30), ("SAT", "SUN")),
            "every 15 minutes from 09:00 to 17:00:30 on Saturday and Sunday, UTC",
        ),
        (
            DailyWindow(timedelta(hours=1), time(22), time(6)),
            "every hour from 22:00 to 06:00 every day, UTC",
        ),
        (
            Dates((date(2026, 12, 24), date(2026, 12, 31)), time(18)),
            "on 2026-12-24 at 18:00 and 2026-12-31 at 18:00, UTC",
        ),
        (
            Dates([date(2026, 12, day) for day in range(1, 10)]),
            "on 9 dates from 2026-12-01 at 00:00 to 2026-12-09 at 00:00, UTC",
        ),
        (Once(at("2026-12-24 18:00"), "Asia/Tokyo"), "once on 2026-12-25 at 03:00, Asia/Tokyo"),
    ],
)
def test_a_trigger_says_what_it_does(trigger: Trigger, words: str) -> None:
    assert trigger.describe() == words


# ------------------------------------------------------------ bad input

HOUR = timedelta(hours=1)
WRONG: Any = "wrong on purpose"


@pytest.mark.parametrize(
    "make, said",
    [
        (lambda: Interval(timedelta(0)), "every=datetime.timedelta(0)): must be 1 second to"),
        (lambda: Interval(timedelta(days=99_999)), "must be 1 second to 36525 days"),
        (lambda: Interval(WRONG), "every='wrong on purpose'): must be a duration"),
        (lambda: Interval(HOUR, WRONG), "anchor="),
        (lambda: Interval(HOUR, timezone="Mars/Base"), "timezone='Mars/Base': unknown"),
        (lambda: CalendarInterval(0, "days"), "every=0): must be 1 to"),
        (lambda: CalendarInterval(True, "days"), "every=True): must be an int"),
        (lambda: CalendarInterval(1, "hours"), "unit='hours'): must be 'days', 'weeks'"),
        (lambda: CalendarInterval(1, "days", WRONG), "at="),
        (lambda: CalendarInterval(1, "days", time(9, tzinfo=UTC)), "without a zone"),
        (lambda: CalendarInterval(1, "days", start=at("2026-01-01")), "start="),
        (lambda: DailyWindow(HOUR, time(9), time(9)), "end=datetime.time(9, 0)): must be another"),
        (lambda: DailyWindow(HOUR, time(9), time(10), ()), "at least one weekday"),
        (lambda: DailyWindow(HOUR, time(9), time(10), ("MONDAYS",)), "must be one of MON, TUE"),
        (lambda: DailyWindow(HOUR, time(9), time(10), "MON"), "must be names of weekdays"),
        (lambda: DailyWindow(timedelta(days=2), time(9), time(10)), "1 second to 1 day"),
        (lambda: DailyWindow(HOUR, time(9, 0, 0, 5), time(10)), "whole seconds"),
        (lambda: Dates([]), "must be 1 to 10000 dates, not 0"),
        (lambda: Dates(WRONG), "must be a list of dates"),
        (lambda: Dates([WRONG]), "must be dates or datetimes"),
        (lambda: Once(WRONG), "at="),
        (lambda: Once(at("2026-01-01"), timezone=WRONG), "unknown"),
    ],
)
def test_nonsense_is_refused_where_it_is_written(make: Callable[[], object], said: str) -> None:
    with pytest.raises((ValueError, TypeError)) as caught:
        make()
    assert said in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    "data, said",
    [
        ({"kind": "lunar", "version": 1}, "unknown kind 'lunar'; known are cron, interval"),
        ({}, "unknown kind None"),
        ({"kind": "cron", "version": 2}, "version 2 of 'cron' is unknown"),
        ({"kind": "cron", "version": 1, "timezone": "UTC"}, "expression is missing"),
        ({"kind": "interval", "version": 1, "every": "1", "anchor": "x"}, "anchor="),
        (Interval(HOUR).to_data() | {"every": "1"}, "every='1'): must be a number of seconds"),
        (Interval(HOUR).to_data() | {"every": 1e300}, "must be a number of seconds"),
        (Interval(HOUR).to_data() | {"moon": 1}, "unknown field 'moon'"),
        (Cron("@daily").to_data() | {"expression": 5}, "expression=5): must be a text"),
        (CalendarInterval(1, "days").to_data() | {"at": "25:00"}, "must be a time in ISO form"),
        (CalendarInterval(1, "days").to_data() | {"every": 1.5}, "must be a whole number"),
        (Dates([date(2026, 1, 1)]).to_data() | {"dates": "2026"}, "must be a list of texts"),
        (Dates([date(2026, 1, 1)]).to_data() | {"dates": ["Friday"]}, "a date in ISO form"),
        (Dates([date(2026, 1, 1)]).to_data() | {"dates": [1]}, "must be a text"),
        (b"{", "not JSON"),
        (b"[" * 100_000, "not JSON"),
        (b"[]", "must be a JSON object, not list"),
        (b"\xff", "not JSON"),
    ],
)
def test_stored_data_that_nobody_wrote_are_named(
    data: dict[str, object] | bytes, said: str
) -> None:
    with pytest.raises(ValueError, match=r"^\w+") as caught:
        trigger_from(data)
    assert said in str(caught.value)
