"""If these fail, slots get two jobs or none, or a long downtime costs more than it should."""

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from detent.model import firing
from detent.model.calendars import Calendar, DailyRange, Weekly, next_allowed
from detent.model.firing import SKIPS_TOLD, SlotPlan, first_slot, jitter_of
from detent.model.schedule import Misfire, SlotState
from detent.model.triggers import Cron, Dates, Interval, Once, Trigger

NOW = datetime(2026, 11, 15, 20, 0, 0, tzinfo=UTC)
MINUTE, HOUR, DAY = timedelta(minutes=1), timedelta(hours=1), timedelta(days=1)
FIRED, SKIPPED = SlotState.FIRED, SlotState.SKIPPED_MISFIRE

TRIGGERS: st.SearchStrategy[Trigger] = st.sampled_from(
    [
        Interval(timedelta(seconds=1)),
        Interval(timedelta(minutes=7)),
        Cron("*/10 * * * *", "Europe/Berlin"),
        Cron("*/20 * 19,20,22 * * *"),
        Cron("30 2 * * *", "Europe/Berlin"),
        Cron("0 12 1 * *"),
        Dates([NOW - n * n * HOUR for n in range(-5, 15)]),
        Once(NOW - MINUTE),
    ]
)
CALENDARS: st.SearchStrategy[tuple[Calendar, ...]] = st.sampled_from(
    [(), (Weekly(),), (DailyRange(NOW.time(), (NOW + HOUR).time()), Weekly(("MON",)))]
)
AGES = st.sampled_from([1, 60, 3600, 86_400, 86_400 * 40]).flatmap(
    lambda most: st.integers(-most // 2, most).map(lambda seconds: timedelta(seconds=seconds))
)
SCHEDULES = st.fixed_dictionaries(
    {
        "misfire": st.sampled_from(list(Misfire)),
        "catch_up_limit": st.integers(1, 20),
        "threshold": st.integers(0, 200).map(lambda seconds: timedelta(seconds=seconds)),
        "start_at": st.none() | AGES.map(lambda age: NOW - age),
        "end_at": st.none() | AGES.map(lambda age: NOW - age),
        "max_runs": st.none() | st.integers(1, 30),
        "limit": st.integers(1, 40),
    }
)


def plan_slots(*where: Any, **schedule: Any) -> SlotPlan:
    """Return a plan, made in one go."""
    steps = firing.plan_slots(*where, **schedule)
    while True:
        try:
            next(steps)
        except StopIteration as end:
            plan: SlotPlan = end.value
            return plan


def fired(plan: SlotPlan) -> list[datetime]:
    return [slot for slot, state in plan.slots if state is FIRED]


def slots_between(
    trigger: Trigger, calendars: tuple[Calendar, ...], begin: datetime, end: datetime
) -> Iterator[datetime]:
    slot = next_allowed(trigger, calendars, begin - timedelta(microseconds=1))
    while slot is not None and slot <= end:
        yield slot
        slot = next_allowed(trigger, calendars, slot)


def live(
    trigger: Trigger,
    calendars: tuple[Calendar, ...],
    rounds: list[datetime],
    next_fire: datetime | None,
    **options: Any,
) -> list[tuple[datetime, SlotState]]:
    """Plan and write at each moment, again while a plan is full; return what was written."""
    written: list[tuple[datetime, SlotState]] = []
    for now in rounds:
        for _ in range(10_000):
            runs = sum(state is FIRED for _, state in written)
            plan = plan_slots(
                trigger, calendars, next_fire=next_fire, now=now, runs=runs, **options
            )
            assert len(plan.slots) <= options["limit"]
            assert all(slot <= now for slot, _ in plan.slots)
            if plan.next_fire is not None:
                assert all(slot < plan.next_fire for slot, _ in plan.slots)
            assert plan.slots or plan.next_fire is None or plan.next_fire > now
            written += plan.slots
            next_fire = plan.next_fire
            if next_fire is None or next_fire > now:
                break
        else:
            pytest.fail("the plans never end")
    return written


@settings(max_examples=200, deadline=None)
@given(TRIGGERS, CALENDARS, SCHEDULES, AGES, st.lists(st.integers(0, 600), max_size=4))
def test_no_slot_twice_none_outside_and_never_too_many(
    trigger: Trigger,
    calendars: tuple[Calendar, ...],
    schedule: dict[str, Any],
    age: timedelta,
    pauses: list[int],
) -> None:
    rounds = [NOW]
    for seconds in pauses:
        rounds.append(rounds[-1] + timedelta(seconds=seconds))
    start, end = schedule["start_at"], schedule["end_at"]
    first = first_slot(trigger, calendars, now=NOW - age, start_at=start, end_at=end)
    written = live(trigger, calendars, rounds, first, **schedule)
    slots = [slot for slot, _ in written]
    assert slots == sorted(set(slots)), "a slot twice, or out of order"
    assert all(start is None or slot >= start for slot in slots)
    assert all(end is None or slot <= end for slot in slots)
    assert all(slot > NOW - age for slot in slots)
    assert not any(calendar.excludes(slot) for slot in slots for calendar in calendars)
    assert all(trigger.next_after(slot - timedelta(microseconds=1)) == slot for slot in slots)
    runs = sum(state is FIRED for _, state in written)
    assert schedule["max_runs"] is None or runs <= schedule["max_runs"]


@settings(max_examples=200, deadline=None)
@given(TRIGGERS, CALENDARS, SCHEDULES, st.integers(0, 3600))
def test_a_plan_equals_looking_at_every_slot(
    trigger: Trigger, calendars: tuple[Calendar, ...], schedule: dict[str, Any], age: int
) -> None:
    """The jumps of the plan against a walk that leaves out nothing."""
    schedule["limit"] = 100_000
    begin = NOW - timedelta(seconds=age)
    start, end = schedule["start_at"] or begin, schedule["end_at"] or NOW
    every = [slot for slot in slots_between(trigger, calendars, begin, NOW) if start <= slot <= end]
    missed = [slot for slot in every if NOW - slot > schedule["threshold"]]
    in_time = every[len(missed) :]
    kept = {"skip": 0, "fire_once": 1, "catch_up": schedule["catch_up_limit"]}[schedule["misfire"]]
    given_up = max(len(missed) - kept, 0)
    wanted = [(slot, SKIPPED) for slot in missed[:given_up][-SKIPS_TOLD:]]
    wanted += [(slot, FIRED) for slot in [*missed[given_up:], *in_time]]
    if schedule["max_runs"] is not None:
        runs = [index for index, (_, state) in enumerate(wanted) if state is FIRED]
        if len(runs) >= schedule["max_runs"]:
            wanted = wanted[: runs[schedule["max_runs"] - 1] + 1]
    first = every[0] if every else NOW + DAY
    plan = plan_slots(trigger, calendars, next_fire=first, now=NOW, **schedule)
    assert plan.slots == wanted


@settings(deadline=None)
@given(TRIGGERS, CALENDARS, SCHEDULES, AGES)
def test_a_plan_after_a_plan_is_empty(
    trigger: Trigger, calendars: tuple[Calendar, ...], schedule: dict[str, Any], age: timedelta
) -> None:
    schedule |= {"limit": 100_000, "threshold": MINUTE}
    first = first_slot(trigger, calendars, now=NOW - age)
    plan = plan_slots(trigger, calendars, next_fire=first, now=NOW, **schedule)
    again = plan_slots(
        trigger, calendars, next_fire=plan.next_fire, now=NOW, runs=len(fired(plan)), **schedule
    )
    assert again.slots == []
    assert again.next_fire == plan.next_fire


# ------------------------------------------------------------ the rules one by one


def test_a_slot_that_is_a_little_late_is_not_missed() -> None:
    hourly = Cron("@hourly")
    for misfire in Misfire:
        for late in (timedelta(0), MINUTE):
            plan = plan_slots(hourly, (), next_fire=NOW, now=NOW + late, misfire=misfire)
            assert plan == SlotPlan([(NOW, FIRED)], NOW + HOUR)
    late = MINUTE + timedelta(microseconds=1)
    plan = plan_slots(hourly, (), next_fire=NOW, now=NOW + late, misfire=Misfire.SKIP)
    assert plan == SlotPlan([(NOW, SKIPPED)], NOW + HOUR)


@pytest.mark.parametrize(
    "misfire, count, states",
    [
        (Misfire.SKIP, 1, [SKIPPED, SKIPPED, SKIPPED, SKIPPED]),
        (Misfire.FIRE_ONCE, 1, [SKIPPED, SKIPPED, SKIPPED, FIRED]),
        (Misfire.CATCH_UP, 2, [SKIPPED, SKIPPED, FIRED, FIRED]),
        (Misfire.CATCH_UP, 9, [FIRED, FIRED, FIRED, FIRED]),
    ],
)
def test_what_happens_with_four_missed_hours(
    misfire: Misfire, count: int, states: list[SlotState]
) -> None:
    plan = plan_slots(
        Cron("@hourly"),
        (),
        next_fire=NOW - 3 * HOUR,
        now=NOW + 30 * MINUTE,
        misfire=misfire,
        catch_up_limit=count,
    )
    assert [state for _, state in plan.slots] == states
    assert [slot for slot, _ in plan.slots] == [NOW - n * HOUR for n in (3, 2, 1, 0)]
    assert plan.next_fire == NOW + HOUR


class Counted:
    """A trigger that counts how often it is asked."""

    def __init__(self, trigger: Trigger) -> None:
        self.trigger, self.asked = trigger, 0
        self.timezone = trigger.timezone

    def next_after(self, moment: datetime) -> datetime | None:
        self.asked += 1
        return self.trigger.next_after(moment)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.trigger, name)


@pytest.mark.parametrize("expression", ["* * * * * *", "* * * 1 1 *", "*/7 * 9-17 * * MON-FRI"])
@pytest.mark.parametrize("misfire, count", [("skip", 1), ("fire_once", 1), ("catch_up", 50)])
def test_a_year_of_seconds_is_not_counted_through(
    expression: str, misfire: str, count: int
) -> None:
    trigger: Any = Counted(Cron(expression, "Europe/Berlin"))
    begin = trigger.next_after(NOW - 365 * DAY)
    options: Any = {"misfire": Misfire(misfire), "catch_up_limit": count, "threshold": 0 * HOUR}
    plan = plan_slots(trigger, (), next_fire=begin, now=NOW, **options)
    assert trigger.asked < 100 * (count + SKIPS_TOLD)
    assert len(fired(plan)) in (count * (misfire != "skip"), count * (misfire != "skip") + 1)
    assert plan.next_fire == trigger.next_after(NOW)
    # The slots are the last ones there were.
    assert plan.slots[-1][0] == max(slots_between(trigger, (), plan.slots[-1][0], NOW))


def test_a_century_of_years_is_caught_up_with() -> None:
    trigger = Cron("0 0 1 1 *")
    plan = plan_slots(
        trigger,
        (),
        next_fire=datetime(1970, 1, 1, tzinfo=UTC),
        now=NOW,
        misfire=Misfire.CATCH_UP,
        catch_up_limit=10_000,
    )
    assert [slot.year for slot in fired(plan)] == list(range(1970, 2027))


def test_a_full_plan_is_continued_where_it_ended() -> None:
    every_second = Interval(timedelta(seconds=1))
    first = NOW - timedelta(seconds=49)
    options: Any = {"limit": 20, "threshold": MINUTE}
    pages = []
    for _ in range(3):
        plan = plan_slots(every_second, (), next_fire=first, now=NOW, **options)
        pages.append(len(plan.slots))
        assert plan.next_fire is not None
        first = plan.next_fire
    assert pages == [20, 20, 10]
    assert first == NOW + timedelta(seconds=1)


def test_catching_up_page_by_page_fires_exactly_so_many() -> None:
    written = live(
        Interval(timedelta(seconds=1)),
        (),
        [NOW],
        NOW - DAY,
        misfire=Misfire.CATCH_UP,
        catch_up_limit=100,
        threshold=timedelta(0),
        limit=30,
    )
    assert [slot for slot, state in written if state is FIRED] == [
        NOW - timedelta(seconds=n) for n in range(100, -1, -1)
    ]


def test_the_last_run_ends_the_schedule() -> None:
    hourly = Cron("@hourly")
    options: Any = {"now": NOW, "max_runs": 5}
    assert plan_slots(hourly, (), next_fire=NOW, runs=3, **options).next_fire == NOW + HOUR
    assert plan_slots(hourly, (), next_fire=NOW, runs=4, **options) == ([(NOW, FIRED)], None)
    assert plan_slots(hourly, (), next_fire=NOW, runs=5, **options) == ([], None)
    assert plan_slots(hourly, (), next_fire=None, runs=0, **options) == ([], None)


@settings(deadline=None)
@given(
    st.sampled_from(list(Misfire)),
    st.integers(1, 60),
    st.integers(1, 20),
    st.lists(st.integers(0, 300), min_size=80, max_size=80),
)
def test_a_schedule_that_lives_long_enough_runs_exactly_so_often(
    misfire: Misfire, max_runs: int, limit: int, pauses: list[int]
) -> None:
    rounds = [NOW]
    for seconds in pauses:
        # In the end everything is on time, so that no rule can leave out for ever.
        rounds += [
            rounds[-1] + timedelta(seconds=seconds),
            rounds[-1] + timedelta(seconds=seconds + 9),
        ]
    options: Any = {"misfire": misfire, "catch_up_limit": 3, "threshold": MINUTE, "limit": limit}
    trigger = Interval(timedelta(seconds=7))
    written = live(trigger, (), rounds, NOW, max_runs=max_runs, **options)
    assert sum(state is FIRED for _, state in written) == max_runs
    assert written[-1][1] is FIRED


def test_the_end_is_included_and_nothing_comes_after_it() -> None:
    hourly = Cron("@hourly")
    assert plan_slots(hourly, (), next_fire=NOW, now=NOW, end_at=NOW) == ([(NOW, FIRED)], None)
    before = NOW - timedelta(microseconds=1)
    assert plan_slots(hourly, (), next_fire=NOW, now=NOW, end_at=before) == ([], None)
    assert first_slot(hourly, (), now=NOW - HOUR, start_at=NOW) == NOW
    assert first_slot(hourly, (), now=NOW, end_at=NOW + MINUTE) is None


def test_a_calendar_that_was_added_later_counts_at_once() -> None:
    plan = plan_slots(Cron("@hourly"), [Weekly()], next_fire=NOW, now=NOW)  # A Sunday.
    assert plan == SlotPlan([], NOW + 4 * HOUR)


def test_a_promised_slot_is_kept_when_the_rules_of_its_zone_change() -> None:
    promised = NOW - timedelta(minutes=30)
    plan = plan_slots(Cron("@hourly"), (), next_fire=promised, now=promised)
    assert plan == SlotPlan([(promised, FIRED)], NOW)


# ------------------------------------------------------------ jitter


def test_jitter_is_the_same_everywhere_and_spread_evenly() -> None:
    jitter = timedelta(seconds=10)
    found = [jitter_of("report", NOW + n * HOUR, jitter) for n in range(1000)]
    assert found == [jitter_of("report", NOW + n * HOUR, jitter) for n in range(1000)]
    assert all(timedelta(0) <= each <= jitter for each in found)
    assert 4.5 < sum(found, timedelta(0)).total_seconds() / 1000 < 5.5
    assert jitter_of("report", NOW, jitter) != jitter_of("other", NOW, jitter)
    assert jitter_of("report", NOW, timedelta(0)) == timedelta(0)
