"""If these fail, cron expressions are read otherwise than people write them."""

from collections import Counter
from collections.abc import Iterator
from datetime import UTC, datetime
from itertools import islice

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from detent.model.triggers import Cron, trigger_from


def following(trigger: Cron, after: str, count: int) -> list[str]:
    def slots() -> Iterator[str]:
        slot = trigger.next_after(datetime.fromisoformat(after).replace(tzinfo=UTC))
        while slot is not None:
            yield slot.strftime("%Y-%m-%d %H:%M:%S").removesuffix(":00")
            slot = trigger.next_after(slot)

    return list(islice(slots(), count))


@pytest.mark.parametrize(
    "expression, slots",
    [
        ("@hourly", ["2026-11-15 21:00", "2026-11-15 22:00"]),
        ("@midnight", ["2026-11-16 00:00", "2026-11-17 00:00"]),
        (" @Weekly ", ["2026-11-22 00:00", "2026-11-29 00:00"]),
        ("@monthly", ["2026-12-01 00:00", "2027-01-01 00:00"]),
        ("@yearly", ["2027-01-01 00:00", "2028-01-01 00:00"]),
        ("@annually", ["2027-01-01 00:00", "2028-01-01 00:00"]),
        ("30 15 9 * * *", ["2026-11-16 09:15:30", "2026-11-17 09:15:30"]),
        ("*/20 * * * * *", ["2026-11-15 20:00:20", "2026-11-15 20:00:40"]),
        ("0 0 L * *", ["2026-11-30 00:00", "2026-12-31 00:00"]),
        ("0 0 LW * *", ["2026-11-30 00:00", "2026-12-31 00:00", "2027-01-29 00:00"]),
        ("0 0 * * MON#2", ["2026-12-14 00:00", "2027-01-11 00:00"]),
        ("0 0 * * fril", ["2026-11-27 00:00", "2026-12-25 00:00"]),
        ("0 0 * * 5L", ["2026-11-27 00:00", "2026-12-25 00:00"]),
        ("0 0 * * SAT-SUN", ["2026-11-21 00:00", "2026-11-22 00:00", "2026-11-28 00:00"]),
        ("0 0 * * 5-0", ["2026-11-20 00:00", "2026-11-21 00:00", "2026-11-22 00:00"]),
        ("0 0 * jan,JUL *", ["2027-01-01 00:00", "2027-01-02 00:00"]),
        ("0 0 ? * MON", ["2026-11-16 00:00", "2026-11-23 00:00"]),
        ("0 0 13 * ?", ["2026-12-13 00:00", "2027-01-13 00:00"]),
        # Both days given: either will do. One with a star: both must hold.
        ("0 0 20 * FRI", ["2026-11-20 00:00", "2026-11-27 00:00"]),
        ("0 0 */10 * FRI", ["2026-12-11 00:00", "2027-01-01 00:00"]),
        ("0 0 29 2 *", ["2028-02-29 00:00", "2032-02-29 00:00"]),
        ("0 0 * 2 MON#5", ["2044-02-29 00:00", "2072-02-29 00:00"]),
    ],
)
def test_an_expression_means_what_people_think(expression: str, slots: list[str]) -> None:
    assert following(Cron(expression), "2026-11-15 20:00", len(slots)) == slots


@pytest.mark.parametrize(
    "expression, after, slots",
    [
        # Named times: once, whatever the clocks do.
        ("30 2 * * *", "2026-03-28 12:00", ["2026-03-29 01:00", "2026-03-30 00:30"]),
        ("30 2 * * *", "2026-10-24 12:00", ["2026-10-25 00:30", "2026-10-26 01:30"]),
        ("15 30 2 * * *", "2026-03-28 12:00", ["2026-03-29 01:00", "2026-03-30 00:30:15"]),
        ("0,30 2,3 * * *", "2026-03-28 12:00", ["2026-03-29 01:00", "2026-03-29 01:30"]),
        ("*/30 2 * * *", "2026-03-28 12:00", ["2026-03-29 01:00", "2026-03-30 00:00"]),
        (
            "*/30 2 * * *",
            "2026-10-24 12:00",
            ["2026-10-25 00:00", "2026-10-25 00:30", "2026-10-26 01:00"],
        ),
        ("H(30-30) H(2-2) * * *", "2026-03-28 12:00", ["2026-03-29 01:00", "2026-03-30 00:30"]),
        # Patterns: what the clocks show, as often as they show it.
        ("30 * * * *", "2026-03-28 23:40", ["2026-03-29 00:30", "2026-03-29 01:30"]),
        (
            "59/30 * * * *",
            "2026-10-24 23:30",
            [f"2026-10-{at}:59" for at in ("24 23", "25 00", "25 01")],
        ),
        ("* 2 * * *", "2026-03-28 12:00", ["2026-03-30 00:00", "2026-03-30 00:01"]),
        ("*/30 0-23 * * *", "2026-03-29 00:20", ["2026-03-29 00:30", "2026-03-29 01:00"]),
        (
            "*/30 * * * *",
            "2026-10-24 23:50",
            ["2026-10-25 00:00", "2026-10-25 00:30", "2026-10-25 01:00", "2026-10-25 01:30"],
        ),
    ],
)
def test_daylight_saving_in_berlin(expression: str, after: str, slots: list[str]) -> None:
    assert following(Cron(expression, "Europe/Berlin"), after, len(slots)) == slots


def test_a_night_whose_clocks_go_back_over_midnight() -> None:
    trigger = Cron("30 */3 * * *", "America/St_Johns")
    assert following(trigger, "2010-11-06 23:30", 4) == [
        "2010-11-07 00:00",
        # 21:30; the clocks went back at 00:01, so 00:30 came four hours later.
        "2010-11-07 04:00",
        "2010-11-07 07:00",
        "2010-11-07 10:00",
    ]


def test_names_spread_over_the_hour_and_each_keeps_its_minute() -> None:
    minutes: Counter[str] = Counter()
    for number in range(600):
        trigger = Cron("H * * * *").for_schedule(f"schedule-{number}")
        first, second = following(trigger, "2026-11-15 20:00", 2)
        assert first[-2:] == second[-2:]
        minutes[first[-2:]] += 1
    assert len(minutes) == 60
    assert max(minutes.values()) < 30


@pytest.mark.parametrize(
    "expression, within",
    [
        ("H(10-20) * * * *", set(range(10, 21))),
        ("H(50-59)/5 * * * *", set(range(50, 60))),
        ("H/15 * * * *", set(range(60))),
    ],
)
def test_hashed_ranges_and_steps(expression: str, within: set[int]) -> None:
    for number in range(50):
        trigger = Cron(expression, name=f"s{number}")
        minutes = [int(slot[14:16]) for slot in following(trigger, "2026-11-15 20:00", 8)]
        assert set(minutes) <= within
        if "/" in expression:
            step = int(expression.partition(" ")[0].partition("/")[2])
            assert len({minute % step for minute in minutes}) == 1
            assert len(set(minutes)) == len(within) // step


def test_a_hashed_expression_is_stored_with_its_name() -> None:
    trigger = Cron("H H * * *").for_schedule("reports")
    assert trigger.to_data()["name"] == "reports"
    assert trigger_from(trigger.to_data()) == trigger
    assert trigger.for_schedule("renamed") == trigger, "its hour does not move with a new name"
    plain = Cron("0 9 * * *", name="reports")
    assert plain == Cron("0 9 * * *"), "a name that has no effect is not kept"
    for expression in ("H H * * *", "0 0 1-7 * +H", "0 0 1,H * *", "0 0 * * 1,H(2-3)/1"):
        assert Cron(expression, name="one") != Cron(expression, name="two"), expression


@pytest.mark.parametrize(
    "expression, said",
    [
        ("0 0 30 2 *", "day-of-month '30' never happens in month '2'"),
        ("0 0 31 4,6 *", "day-of-month '31' never happens in month '4,6'"),
        ("0 0 */31 * MON#5", "never happens with day-of-week 'MON#5': no date is both"),
        ("60 * * * *", "minute '60' must be made of 0-59"),
        ("0 24 * * *", "hour '24' must be made of 0-23"),
        ("0 0 0 * *", "day-of-month '0' must be made of 1-31, L"),
        ("0 0 * 13 *", "month '13' must be made of 1-12 or JAN-DEC"),
        ("0 0 * * FOO", "day-of-week 'FOO' must be made of 0-7 or SUN-SAT"),
        ("61 * * * * *", "second '61' must be made of 0-59"),
        ("*/0 * * * *", "step '*/0' of minute must be 1 to 60"),
        ("*/61 * * * *", "step '*/61' of minute must be 1 to 60"),
        ("H/90 * * * *", "step 'H/90' of minute must be 1 to 60"),
        ("H(0-9)/20 * * * *", "must be 1 to 10"),
        ("H(0-60) * * * *", "minute 'H(0-60)' must be made of 0-59"),
        ("H(9-3) * * * *", "minute 'H(9-3)' runs backwards; write H(3-9)"),
        ("10-5 * * * *", "minute '10-5'"),
        ("", "must have 5 fields"),
        ("* * * *", "not 4"),
        ("0 0 12 * * ? 2026", "not 7"),
        ("@reboot", "must be one of @annually, @daily"),
        ("@", "must be one of"),
        ("0 0 * * *" + " " * 9 + "\n* * * * *", "not 10"),
        ("1," * 5000 + "1 * * * *", "has 10009 characters"),
        ("٣ * * * *", "minute"),
    ],
)
def test_a_wrong_expression_is_refused_with_what_would_be_right(expression: str, said: str) -> None:
    with pytest.raises(ValueError, match=r"^Cron\(expression=") as caught:
        Cron(expression)
    assert said in str(caught.value)
    assert "\n" not in str(caught.value)
    assert len(str(caught.value)) < 500


TERMS = st.text("0123456789*/-,LWH#()?@+ MONSUJADRYF%~", max_size=12)
WORDS = st.sampled_from(
    [
        *("*", "?", "*/5", "1-5", "22-2", "NOV-FEB", "FRI-MON", "L", "LW", "L-3", "L-3W", "15W"),
        *("MON#2", "FRIL", "H", "H(1-7)", "H/2", "H(5-1)/3", "+FRI", "0", "7", "31", "Monday"),
        *("1-7/9", "@daily", "TZ=UTC", "2026", "january-March", "0-0/5", "5/2", ",", "-", "W", "+"),
    ]
)
EXPRESSIONS = st.one_of(
    st.lists(TERMS, min_size=5, max_size=6).map(" ".join),
    st.lists(WORDS, min_size=4, max_size=7).map(" ".join),
    st.lists(st.lists(WORDS, min_size=1, max_size=3).map(",".join), min_size=5, max_size=6).map(
        " ".join
    ),
    st.text(max_size=300),
)


@settings(deadline=None)
@given(EXPRESSIONS)
@example("0 0 L/2 * *")
@example("0 0 * * L")
@example("0 0 * * 1#2#3")
@example("0 0 * * 5L/2")
@example("0 0 LW-3 * *")
@example("0-0/5 * * * *")
@example("0 0 \N{ARABIC-INDIC DIGIT ONE}W * *")
@example("0 0 * * ²#1")
@example("H(٣-٩) * * * *")
@example("\x00 \ud800 * * *")
def test_whatever_is_written_is_read_or_refused(expression: str) -> None:
    try:
        trigger = Cron(expression, name="any")
    except ValueError as error:
        said = str(error)
        assert said.startswith("Cron(expression=")
        assert len(said) < 4 * 250 + 400, "a refusal is short"
        return
    assert trigger.next_after(datetime(2026, 1, 1, tzinfo=UTC)) is not None
    assert trigger.describe()
    assert trigger_from(trigger.to_data()) == trigger
