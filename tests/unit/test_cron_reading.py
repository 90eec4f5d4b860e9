"""If these fail, a cron fires at other times than it says, or is refused without a way out."""

from datetime import UTC, datetime
from itertools import pairwise

import pytest

from detent.model.calendars import CronCalendar
from detent.model.triggers import Cron
from tests.unit.test_cron import following

BERLIN = "Europe/Berlin"


@pytest.mark.parametrize(
    "expression, slots",
    [
        # A range of one value is one value, whatever its step.
        ("10-10/15 * * * *", ["2026-11-15 20:10", "2026-11-15 21:10"]),
        ("0 9-9/2 * * *", ["2026-11-16 09:00", "2026-11-17 09:00"]),
        ("0 0 7-7/2 * *", ["2026-12-07 00:00", "2027-01-07 00:00"]),
        ("0 0 1 3-3/2 *", ["2027-03-01 00:00", "2028-03-01 00:00"]),
        ("0 0 * * 2-2/2", ["2026-11-17 00:00", "2026-11-24 00:00"]),
        ("30-30/7 0 9 * * *", ["2026-11-16 09:00:30", "2026-11-17 09:00:30"]),
        # Ranges go round the clock, the year and the week.
        ("0 22-2 * * *", [f"2026-11-{day}:00" for day in ("15 22", "15 23", "16 00", "16 01")]),
        ("0 22-2/2 * * *", [f"2026-11-{day}:00" for day in ("15 22", "16 00", "16 02", "16 22")]),
        ("0 0 1 NOV-FEB *", ["2026-12-01 00:00", "2027-01-01 00:00", "2027-02-01 00:00"]),
        ("0 0 1 NOV-FEB/2 *", ["2027-01-01 00:00", "2027-11-01 00:00", "2028-01-01 00:00"]),
        ("0 0 * * FRI-MON", [f"2026-11-{day} 00:00" for day in (16, 20, 21, 22, 23, 27)]),
        ("0 0 * * 7-2", [f"2026-11-{day} 00:00" for day in (16, 17, 22, 23)]),
        ("0 0 * * FRI-MON/2", [f"2026-11-{day} 00:00" for day in (20, 22, 27)]),
        # The weekday nearest to a day, within its month.
        ("0 0 15W * *", ["2026-11-16 00:00", "2026-12-15 00:00"]),  # A Sunday, a Tuesday.
        ("0 0 1W 8,11 *", ["2027-08-02 00:00", "2027-11-01 00:00", "2028-08-01 00:00"]),
        ("0 0 1W 5 *", ["2027-05-03 00:00"]),  # The first is a Saturday.
        ("0 0 31W 1,4 *", ["2027-01-29 00:00", "2028-01-31 00:00"]),  # The 31st is a Sunday.
        ("0 0 4W 7 *", ["2027-07-05 00:00"]),  # The fourth is a Sunday.
        ("0 0 L-3 * *", ["2026-11-27 00:00", "2026-12-28 00:00", "2027-01-28 00:00"]),
        ("0 0 L-3W 1,2 *", ["2027-01-28 00:00", "2027-02-25 00:00"]),
        ("0 0 L-30 * *", ["2026-12-01 00:00", "2027-01-01 00:00", "2027-03-01 00:00"]),
        ("0 0 L-1W 8 *", ["2027-08-30 00:00", "2028-08-30 00:00"]),
        ("0 0 L-30W 5 *", ["2027-05-03 00:00"]),
        # Names in full.
        ("0 0 * january Monday", ["2027-01-04 00:00", "2027-01-11 00:00"]),
        ("0 0 * * Monday-friday/4", ["2026-11-16 00:00", "2026-11-20 00:00"]),
        ("0 0 * * Tuesday#2,fridayL", ["2026-11-27 00:00", "2026-12-08 00:00"]),
        # Both day fields at once.
        ("0 9 13 * +FRI", ["2027-08-13 09:00", "2028-10-13 09:00"]),
        ("0 9 1-7 * +1", ["2026-12-07 09:00", "2027-01-04 09:00"]),
        ("0 9 * * +FRI", ["2026-11-20 09:00"]),
        # A full range is a value like others: either day is enough, and one is always there.
        ("0 0 1-31 * SUN", ["2026-11-16 00:00", "2026-11-17 00:00"]),
        ("0 0 15 * 0-7", ["2026-11-16 00:00", "2026-11-17 00:00"]),
        ("0 0 * * H(0-0)", ["2026-11-22 00:00", "2026-11-29 00:00"]),
        ("0 0 * * H(SAT-SAT)", ["2026-11-21 00:00", "2026-11-28 00:00"]),
    ],
)
def test_an_expression_fires_when_its_sets_say(expression: str, slots: list[str]) -> None:
    assert following(Cron(expression, name="any"), "2026-11-15 20:00", len(slots)) == slots


@pytest.mark.parametrize(
    "expression, words",
    [
        ("0 0 1-31 * SUN", "at 00:00 every day"),
        ("0 0 15 * 0-7", "at 00:00 every day"),
        ("10-10/15 * * * *", "at minute 10 of every hour"),
        ("0 9-9/2 * * *", "at 09:00 every day"),
        ("0-59/1 * * * *", "every minute"),
        ("* * * * * *", "every second"),
        ("0 * * * *", "at the start of every hour"),
        ("*/7 * * * *", "every 7th minute of every hour"),
        ("5/20 * * * *", "every 20th minute from 5 of every hour"),
        ("0,30 * * * *", "at minutes 0 and 30 of every hour"),
        ("*/15 9-17 * * MON-FRI", "every 15th minute of hours 9 to 17 on Monday to Friday"),
        ("0 */2 * * *", "at minute 0 of every 2nd hour"),
        ("0 22-3 * * *", "at minute 0 of hours 22 to 3"),
        ("*/20 * * * * *", "every 20th second of every minute"),
        ("30 15 9 * * *", "at 09:15:30 every day"),
        ("0 9,17 * * *", "at 09:00 and 17:00 every day"),
        ("0 0 1 1 *", "at 00:00 on the 1st of January"),
        ("0 0 1,21-23 * *", "at 00:00 on the 1st and the 21st to the 23rd of the month"),
        ("0 0 */2 * MON", "at 00:00 on every 2nd day from the 1st of the month if it is Monday"),
        ("0 0 13 * FRI", "at 00:00 on the 13th of the month or on Friday"),
        ("0 0 13 * +FRI,SAT", "at 00:00 on the 13th of the month if it is Friday or Saturday"),
        ("0 0 L NOV-FEB *", "at 00:00 on the last day of November to February"),
        (
            "0 0 LW,15W * *",
            "at 00:00 on the weekday nearest to the 15th and the last weekday of the month",
        ),
        ("0 0 L-3 * *", "at 00:00 on the 3rd day before the last of the month"),
        (
            "0 0 L-1W * *",
            "at 00:00 on the weekday nearest to the 1st day before the last of the month",
        ),
        (
            "0 0 * * MON#2,FRIL",
            "at 00:00 on the 2nd Monday of the month and the last Friday of the month",
        ),
        ("0 0 * * FRI-MON", "at 00:00 on Friday to Monday"),
        ("0 0 * JAN *", "at 00:00 every day in January"),
        ("* * * JAN MON", "every minute on Monday in January"),
    ],
)
def test_the_words_say_what_fires(expression: str, words: str) -> None:
    assert Cron(expression).describe() == f"{words}, UTC"


#: Each pair has the same sets of minutes and hours.
ALIKE = [
    ("0,30 2 * * *", "0/30 2 * * *"),
    ("0,30 2 * * *", "*/30 2 * * *"),
    ("0,20,40 1-3 * * *", "*/20 1,2,3 * * *"),
    ("15 1,3,5 * * *", "15 1-5/2 * * *"),
    ("* 2 * * *", "0-59 2 * * *"),
    ("30 * * * *", "30 0-23 * * *"),
    ("30 0-23/3 * * *", "30 0,3,6,9,12,15,18,21 * * *"),
    ("H(30-30) 2 * * *", "30-30/5 2-2 * * *"),
]


@pytest.mark.parametrize("zone, year", [(BERLIN, 2026), ("Australia/Lord_Howe", 2026)])
@pytest.mark.parametrize("one, other", ALIKE)
def test_equal_sets_fire_equally_in_gaps_and_folds(
    one: str, other: str, zone: str, year: int
) -> None:
    for start in (f"{year}-03-28 00:00", f"{year}-10-03 00:00", f"{year}-10-24 00:00"):
        first, second = Cron(one, zone), Cron(other, zone)
        assert following(first, start, 200) == following(second, start, 200)


def test_a_night_with_a_gap_has_one_slot_for_all_that_fell_into_it() -> None:
    for expression in ("0,30 2 * * *", "0/30 2 * * *", "*/30 2 * * *"):
        assert following(Cron(expression, BERLIN), "2026-03-28 12:00", 2) == [
            "2026-03-29 01:00",
            "2026-03-30 00:00",
        ]


@pytest.mark.parametrize(
    "expression, said",
    [
        # field, value, way out
        ("0 0 L/2 * *", ["day-of-month 'L/2'", "L is one day", "L-2"]),
        ("0 0 LW/2 * *", ["day-of-month 'LW/2'", "LW is one day"]),
        ("0 0 15W/2 * *", ["day-of-month '15W/2'", "15W is one day"]),
        ("0 0 * * FRIL/2", ["day-of-week 'FRIL/2'", "FRIL is one day"]),
        ("0 0 12 ? * 2-6", ["day-of-week '2-6'", "MON-FRI", "TUE-SAT", "Quartz"]),
        ("0 0 12 ? * 6#3", ["day-of-week '6#3'", "FRI#3", "SAT#3"]),
        ("0 12 ? * 6L", ["day-of-week '6L'", "FRIL", "SATL"]),
        ("*/5 * * * * 0", ["day-of-week '0'", "seconds first", "SUN", "'0 */5 * * * *'"]),
        ("*/15 9-17 * * 1-5 0", ["day-of-week '0'", "seconds first", "'0 */15 9-17 * * 1-5'"]),
        ("0 9 * * 1-5 0", ["day-of-week '0'", "seconds first", "'0 0 9 * * 1-5'"]),
        ("*/5 * * * * 30", ["day-of-week '30'", "seconds first", "'30 */5 * * * *'"]),
        ("* * * * * */15", ["'*/15' of day-of-week", "seconds first", "'*/15 * * * * *'"]),
        ("10-5 * * * *", ["minute '10-5'", "backwards", "10-59,0-5"]),
        ("50-10/5 0 9 * * *", ["second '50-10/5'", "backwards"]),
        ("0 0 25-5 * *", ["day-of-month '25-5'", "backwards", "25-31,1-5"]),
        ("CRON_TZ=Asia/Tokyo 0 9 * * *", ["CRON_TZ=Asia/Tokyo", "timezone='Asia/Tokyo'"]),
        ("TZ=UTC 0 9 * * *", ["TZ=UTC", "timezone='UTC'"]),
        ("0 9 * * * Europe/Berlin", ["'Europe/Berlin'", "timezone='Europe/Berlin'"]),
        ("@every 5m", ["'@every 5m'", "Interval("]),
        ("@every 1h30m", ["'@every 1h30m'", "Interval("]),
        ("@reboot", ["'@reboot'", "on_start"]),
        ("@noon", ["'@noon'", "'0 12 * * *'"]),
        ("@dayly", ["'@dayly'", "@daily"]),
        ("0 0 12 * * ? 2026", ["year '2026'", "start= and end=", "not 7"]),
        ("0 9 24 12 * 2027", ["): year '2027' is not read", "start= and end="]),
        ("0 10 * * ? *", ["month '?'", "year", "leave it out"]),
        ("0 18 ? * MON-FRI *", ["hour '?'", "year", "leave it out"]),
        ("cron(0 10 * * ? *)", ["'cron(0'", "without a year"]),
        ("rate(5 minutes)", ["'rate(5'", "Interval("]),
        ("0 0 L-0 * *", ["day-of-month 'L-0'", "L-1 to L-30"]),
        ("0 24 * * *", ["hour '24'", "midnight is 0"]),
        ("0 0 25-L * *", ["day-of-month '25-L'", "25-31"]),
        ("0 0 -3 * *", ["day-of-month '-3'", "L-"]),
        ("0 0 L-31 * *", ["day-of-month 'L-31'", "L-1 to L-30"]),
        ("0 0 32W * *", ["day-of-month '32W'", "1W to 31W"]),
        ("0 0 W * *", ["day-of-month 'W'", "15W"]),
        ("0 0 * * L", ["day-of-week 'L'", "SAT", "FRIL"]),
        ("0 0 * * L5", ["day-of-week 'L5'", "FRIL"]),
        ("0 0 * * MON#L", ["day-of-week 'MON#L'", "FRIL"]),
        ("0 0 * * MON#6", ["day-of-week 'MON#6'", "1 to 5"]),
        ("0 0 * * MON-FRI#1", ["day-of-week 'MON-FRI#1'", "MON#1,TUE#1"]),
        ("0 0 * * SUN%2", ["day-of-week 'SUN%2'", 'CalendarInterval(2, "weeks")']),
        ("0 0 13 * &FRI", ["day-of-week '&FRI'", "+FRI"]),
        ("0~30 * * * *", ["minute '0~30'", "H(0-30)"]),
        ("R * * * *", ["minute 'R'", "H"]),
        ("0 9 */100,13 * FRI", ["'*/100' of day-of-month", "1 to 31"]),
        ("+5 * * * *", ["minute '+5'", "+FRI", "day-of-week"]),
        ("0 0 30 2 *", ["day-of-month '30'", "month '2'", "L is the last day"]),
        ("0 0 31W 4,6 *", ["day-of-month '31W'", "month '4,6'", "LW"]),
        ("0 0 L-29 2 *", ["day-of-month 'L-29'", "month '2'"]),
        ("0 0 13 * +MON#1", ["day-of-month '13'", "day-of-week '+MON#1'", "no date is both"]),
        ("0 0 29-31 2 +MON#4", ["day-of-month '29-31'", "day-of-week '+MON#4'", "no date is both"]),
        ("0 0 , * *", ["day-of-month ''", "nothing between"]),
        (f"{'0,' * 200}0 * * * *", ["409 characters", "at most 250", "ranges"]),
    ],
)
def test_a_refusal_names_the_field_the_value_and_the_way_out(
    expression: str, said: list[str]
) -> None:
    with pytest.raises(ValueError, match=r"^Cron\(expression=") as caught:
        Cron(expression)
    missing = [words for words in said if words not in str(caught.value)]
    assert not missing, str(caught.value)
    assert "\n" not in str(caught.value)
    assert len(str(caught.value)) < 500


@pytest.mark.parametrize(
    "expression",
    ["0 0 12 ? * MON-FRI", "0 30 2 * * 0", "*/5 * * * * SUN", "0 0 12 ? * */2", "0 0 12 13 * ?"],
)
def test_what_can_only_mean_one_thing_is_read(expression: str) -> None:
    assert Cron(expression).next_after(datetime(2026, 1, 1, tzinfo=UTC)) is not None


def test_a_moment_without_a_zone_is_refused_as_by_other_triggers() -> None:
    with pytest.raises(TypeError, match="with a zone"):
        Cron("@hourly").next_after(datetime(2026, 1, 1))  # noqa: DTZ001 - wrong on purpose


@pytest.mark.parametrize(
    "expression",
    [
        "* * * * *",
        "*/1 * * * *",
        "0-59 0-23 * * *",
        "* * 1-31 * SUN",
        "* * 5 * 0-7",
        "0-59 * * * * *",
    ],
)
def test_a_calendar_must_leave_some_time(expression: str) -> None:
    with pytest.raises(ValueError, match="one that leaves some time"):
        CronCalendar(expression)


def test_a_calendar_goes_by_the_sets() -> None:
    for expression in ("* 12 * * *", "0-59 12-12/3 * * *", "* * 12 * * *"):
        calendar = CronCalendar(expression)
        noon = datetime(2026, 11, 12, 12, 30, 15, tzinfo=UTC)
        assert calendar.excludes(noon) is True
        assert calendar.excluded_until(noon) == datetime(2026, 11, 12, 13, tzinfo=UTC)


def test_rare_days_are_found_in_bounded_time() -> None:
    rare = Cron("0 0 29 2 +MON")
    slots = following(rare, "1896-01-01 00:00", 12)
    years = [int(slot[:4]) for slot in slots]
    assert max(later - earlier for earlier, later in pairwise(years)) == 40
    assert Cron("0 0 29 2 +MON").next_after(datetime(9990, 1, 1, tzinfo=UTC)) is None
