"""If these fail, schedules fire on holidays, or not on working days."""

from collections.abc import Callable
from datetime import UTC, date, datetime, time, timedelta
from typing import Any
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from detent.model.calendars import (
    Annual,
    Calendar,
    CronCalendar,
    DailyRange,
    Holidays,
    Weekly,
    calendar_bytes,
    calendar_from,
    next_allowed,
    stacked,
)
from detent.model.triggers import Cron, Dates, Interval, Once

ZONES = st.sampled_from(
    ["UTC", "Europe/Berlin", "Australia/Lord_Howe", "Pacific/Apia", "Asia/Beirut"]
)
DATES = st.dates(date(2008, 1, 1), date(2014, 12, 31))
TIMES = st.times().map(lambda each: each.replace(microsecond=0))
BASES = st.none() | st.text(min_size=1, max_size=5)
MOMENTS = st.datetimes(
    datetime.fromisoformat("2008-01-01"),
    datetime.fromisoformat("2014-12-31"),
    timezones=st.just(UTC),
)
CALENDARS: st.SearchStrategy[Calendar] = st.one_of(
    st.builds(Holidays, st.lists(DATES, min_size=1), ZONES, BASES),
    st.builds(Annual, st.lists(DATES.map(lambda d: (d.month, d.day)), min_size=1), ZONES, BASES),
    st.builds(Weekly, st.sampled_from([("SAT", "SUN"), ("FRI",)]), ZONES, BASES),
    st.tuples(TIMES, TIMES, st.booleans(), ZONES, BASES)
    .filter(lambda fields: fields[0] != fields[1])
    .map(lambda fields: DailyRange(*fields)),
    st.builds(
        CronCalendar,
        st.sampled_from(
            ["* * 1 * *", "* 0-6 * * *", "*/2 * * * *", "* * * * * MON", "*/3 * 1 * * *"]
        ),
        ZONES,
        BASES,
    ),
)


def at(text: str) -> datetime:
    return datetime.fromisoformat(text).replace(tzinfo=UTC)


# ------------------------------------------------------------ what holds for all of them


@settings(deadline=None)
@given(CALENDARS, MOMENTS, st.integers(0, 999))
def test_all_is_left_out_until_the_moment_that_is_said(
    calendar: Calendar, moment: datetime, share: int
) -> None:
    end = calendar.excluded_until(moment)
    assert calendar.excludes(moment) is (end is not None)
    if end is not None:
        assert moment < end <= moment + timedelta(days=1)
        assert calendar.excludes(moment + (end - moment) // 1000 * share)
        assert calendar.excludes(end - timedelta(microseconds=1))


@settings(deadline=None)
@given(CALENDARS)
def test_a_stored_calendar_is_read_back_equal(calendar: Calendar) -> None:
    stored = calendar_bytes(calendar)
    again = calendar_from(stored)
    assert again == calendar
    assert calendar_bytes(again) == stored
    assert calendar.describe() == again.describe()


@settings(deadline=None)
@given(CALENDARS, MOMENTS)
def test_the_next_allowed_slot_is_the_first_that_is_not_left_out(
    calendar: Calendar, moment: datetime
) -> None:
    trigger = Interval(timedelta(hours=5, minutes=7))
    found = next_allowed(trigger, [calendar], moment)
    slot = trigger.next_after(moment)
    while slot is not None and calendar.excludes(slot):
        slot = trigger.next_after(slot)
    assert found == slot


# ------------------------------------------------------------ one by one


@pytest.mark.parametrize(
    "calendar, out, allowed",
    [
        (
            Holidays([date(2026, 12, 24)], "Europe/Berlin"),
            ["2026-12-23 23:00", "2026-12-24 22:59:59"],
            ["2026-12-23 22:59:59", "2026-12-24 23:00", "2027-12-24 12:00"],
        ),
        (
            Annual(["12-24", (2, 29)]),
            ["2026-12-24 00:00", "2027-12-24 12:00", "2028-02-29 12:00"],
            ["2026-12-25 00:00", "2027-02-28 12:00"],
        ),
        (Weekly(), ["2026-11-14 00:00", "2026-11-15 23:59"], ["2026-11-13 23:59", "2026-11-16"]),
        (Weekly(("friday",)), ["2026-11-13"], ["2026-11-14", "2026-11-15"]),
        (
            DailyRange(time(22), time(6)),
            ["2026-11-15 22:00", "2026-11-15 03:00"],
            ["2026-11-15 06:00", "2026-11-15 21:59:59"],
        ),
        (
            DailyRange(time(9), time(17), inverted=True),
            ["2026-11-15 08:59", "2026-11-15 17:00"],
            ["2026-11-15 09:00", "2026-11-15 16:59"],
        ),
        (CronCalendar("* * 1 * *"), ["2026-11-01 12:34:56"], ["2026-11-02 00:00"]),
        (CronCalendar("30 9 * * *"), ["2026-11-01 09:30:59"], ["2026-11-01 09:31"]),
        (CronCalendar("15 30 9 * * *"), ["2026-11-01 09:30:15"], ["2026-11-01 09:30:16"]),
    ],
)
def test_a_calendar_leaves_out(calendar: Calendar, out: list[str], allowed: list[str]) -> None:
    for moment in out:
        assert calendar.excludes(at(moment)), moment
    for moment in allowed:
        assert not calendar.excludes(at(moment)), moment


def test_both_passes_of_a_fold_are_seen() -> None:
    """02:15 is allowed, and comes again after 02:45 was left out."""
    calendar = DailyRange(time(2, 30), time(4), timezone="Europe/Berlin")
    trigger = Cron("15,45 * * * *", "Europe/Berlin")
    slots = []
    slot = next_allowed(trigger, [calendar], at("2026-10-24 23:50"))
    while slot is not None and slot < at("2026-10-25 03:30"):
        slots.append(slot.astimezone(ZoneInfo("Europe/Berlin")).strftime("%H:%M"))
        slot = next_allowed(trigger, [calendar], slot)
    assert slots == ["02:15", "02:15", "04:15"]


@pytest.mark.parametrize(
    "calendar, words",
    [
        (Holidays([date(2026, 12, 24), date(2026, 1, 1)]), "not on 2026-01-01 and 2026-12-24, UTC"),
        (
            Holidays([date(2026, 12, day) for day in range(1, 9)]),
            "not on 8 days from 2026-12-01 to 2026-12-08, UTC",
        ),
        (Annual(["12-24", "1-1"]), "not on January 1 and December 24, UTC"),
        (Annual([(1, day) for day in range(1, 9)]), "not on 8 days of every year, UTC"),
        (Weekly(timezone="Asia/Tokyo"), "not on Saturday and Sunday, Asia/Tokyo"),
        (DailyRange(time(22), time(6)), "not from 22:00 to 06:00, UTC"),
        (DailyRange(time(9), time(17), inverted=True), "only from 09:00 to 17:00, UTC"),
        (CronCalendar("* * 1 * *"), "not every minute on the 1st of the month, UTC"),
    ],
)
def test_a_calendar_says_what_it_leaves_out(calendar: Calendar, words: str) -> None:
    assert calendar.describe() == words


# ------------------------------------------------------------ stacked


def test_a_calendar_stands_on_others() -> None:
    known: dict[str, Calendar] = {
        "weekend": Weekly(),
        "holidays": Holidays([date(2026, 11, 16)], base="weekend"),
        "nights": DailyRange(time(20), time(8), base="holidays"),
        "circle": Weekly(("MON",), base="circle"),
    }
    assert stacked(["nights", "weekend"], known) == (
        known["nights"],
        known["weekend"],
        known["holidays"],
    )
    assert stacked(["circle"], known) == (known["circle"],)
    assert stacked([], known) == ()
    slot = next_allowed(
        Interval(timedelta(hours=1)), stacked(["nights"], known), at("2026-11-13 19:30")
    )
    assert slot == at("2026-11-17 08:00")


def test_an_unknown_calendar_is_named_with_those_that_are_known() -> None:
    with pytest.raises(ValueError, match="calendar 'easter' is unknown; known are a, b"):
        stacked(["a"], {"b": Weekly(), "a": Weekly(base="easter")})
    with pytest.raises(ValueError, match="known are none"):
        stacked(["a"], {})


def test_nothing_comes_when_everything_is_left_out() -> None:
    monthly = Cron("0 9 1 * *")
    assert next_allowed(monthly, [CronCalendar("* * 1 * *")], at("2026-11-15")) is None
    holiday = Holidays([date(2026, 12, 24)])
    assert next_allowed(Dates([date(2026, 12, 24)]), [holiday], at("2026-11-15")) is None
    assert next_allowed(Once(at("2026-12-24 18:00")), [holiday], at("2026-11-15")) is None


def test_a_hopeless_search_is_given_up() -> None:
    every_day = Annual(
        [(date(2000, 1, 1) + timedelta(days=day)).timetuple()[1:3] for day in range(366)]
    )
    with pytest.raises(ValueError, match="leave out 5,000 slots in a row"):
        next_allowed(Interval(timedelta(seconds=1)), [every_day], at("2026-11-15"))


def test_a_weekend_of_seconds_is_jumped_over() -> None:
    asked = []

    class Counted(Weekly):
        def excluded_until(self, moment: datetime) -> datetime | None:
            asked.append(moment)
            return super().excluded_until(moment)

    slot = next_allowed(Interval(timedelta(seconds=1)), [Counted()], at("2026-11-13 23:59:59"))
    assert slot == at("2026-11-16 00:00")
    assert len(asked) == 3


# ------------------------------------------------------------ bad input

WRONG: Any = "wrong on purpose"


@pytest.mark.parametrize(
    "make, said",
    [
        (lambda: Holidays([]), "must be 1 to 10000 dates, not 0"),
        (lambda: Holidays([at("2026-01-01")]), "must be a date"),
        (lambda: Holidays(WRONG), "must be a list of dates"),
        (lambda: Annual(["02-30"]), "Annual(days='02-30'): must be month and day like '12-24'"),
        (lambda: Annual([WRONG]), "must be month and day"),
        (lambda: Annual([(1, 2, 3)]), "must be month and day"),  # type: ignore[list-item]
        (lambda: Annual([]), "at least one day"),
        (lambda: Annual("12-24"), "must be a list of days"),
        (lambda: Weekly(("MON", "TUE", "WED", "THU", "FRI", "SAT", "SUN")), "six weekdays at most"),
        (lambda: Weekly(("X",)), "must be one of MON"),
        (lambda: DailyRange(time(9), time(9)), "must be another time than start="),
        (lambda: DailyRange(time(9), time(10), WRONG), "inverted="),
        (lambda: CronCalendar("* * * * *"), "leaves some time"),
        (lambda: CronCalendar("0 0 30 2 *"), "never happens"),
        (lambda: Weekly(timezone="Europe/Berln"), "did you mean Europe/Berlin"),
        (lambda: Weekly(base=""), "base=''): must be the name of a calendar"),
    ],
)
def test_nonsense_is_refused_where_it_is_written(make: Callable[[], object], said: str) -> None:
    with pytest.raises((ValueError, TypeError)) as caught:
        make()
    assert said in str(caught.value)


@pytest.mark.parametrize(
    "data, said",
    [
        ({"kind": "lunar", "version": 1}, "calendar: unknown kind 'lunar'; known are holidays"),
        (Weekly().to_data() | {"version": 9}, "version 9 of 'weekly' is unknown"),
        (Weekly().to_data() | {"moon": 1}, "Weekly: unknown field 'moon'"),
        (Weekly().to_data() | {"base": 1}, "base=1): must be a text"),
        (DailyRange(time(1), time(2)).to_data() | {"inverted": "no"}, "true or false"),
        (Holidays([date(2026, 1, 1)]).to_data() | {"dates": ["x"]}, "a date in ISO form"),
        (b"7", "calendar: must be a JSON object"),
    ],
)
def test_stored_data_that_nobody_wrote_are_named(
    data: dict[str, object] | bytes, said: str
) -> None:
    with pytest.raises(ValueError, match=r"^\w+") as caught:
        calendar_from(data)
    assert said in str(caught.value)
