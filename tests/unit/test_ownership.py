"""If these fail, code and operators fight over a schedule, or a change of one moves its slots."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from detent.model.ownership import (
    FIELDS,
    FIRING_PARTS,
    OWN_PARTS,
    changed,
    is_abandoned,
    merged,
)
from detent.model.schedule import Firing, Misfire, Overlap, Owner, Schedule, ScheduleInfo

NOW = datetime(2030, 1, 1, tzinfo=UTC)
HOUR = timedelta(hours=1)

CODE = Schedule(
    "report",
    b"code",
    Firing("send", "mail", "mail", 2, b"[1]", "json", b"{}", None, ("code",)),
    owner=Owner.CODE,
)
STORED = Schedule(
    "report",
    b"stored",
    Firing("send", "bulk", "bulk+gpu", 4, b"[2]", "other", b"[]", b"{1}", ("stored",)),
    "night",
    Owner.CODE,
    ("holidays",),
    Misfire.CATCH_UP,
    9,
    HOUR,
    Overlap.SKIP,
    HOUR,
    NOW,
    NOW + HOUR,
    3,
    "edited",
)


def part(schedule: Schedule, name: str) -> Any:
    return getattr(schedule, name) if hasattr(schedule, name) else getattr(schedule.firing, name)


def every_hour(_schedule: Schedule, after: datetime) -> datetime:
    return after.replace(minute=0, second=0, microsecond=0) + HOUR


@given(st.sets(st.sampled_from(FIELDS)))
def test_what_is_edited_is_the_operators_and_the_rest_is_the_codes(edited: set[str]) -> None:
    after = merged(CODE, STORED, edited)
    theirs = {name for field in edited for name in {**OWN_PARTS, **FIRING_PARTS}[field]}
    for field in FIELDS:
        for name in {**OWN_PARTS, **FIRING_PARTS}[field]:
            owner = STORED if name in theirs else CODE
            assert part(after, name) == part(owner, name)
    assert (after.name, after.owner, after.firing.task) == ("report", Owner.CODE, "send")


@pytest.mark.parametrize(
    "edited, lane",
    [
        ((), "mail~task:send#1"),
        (("args",), "mail~task:send#2"),
        (("queue",), "bulk+gpu~task:send#2"),
        (("args", "queue"), "bulk+gpu~task:send#2"),
    ],
)
def test_the_gates_of_a_lane_follow_the_arguments(edited: tuple[str, ...], lane: str) -> None:
    code = replace(CODE, firing=replace(CODE.firing, lane="mail~task:send#1"))
    stored = replace(STORED, firing=replace(STORED.firing, lane="bulk+gpu~task:send#2"))
    assert merged(code, stored, edited).firing.lane == lane


MOVING: dict[str, Any] = {
    "trigger": b"new",
    "calendars": ("x",),
    "start_at": NOW,
    "end_at": NOW,
    "max_runs": 9,
}
RESTING: dict[str, Any] = {
    "group": "x",
    "misfire": Misfire.SKIP,
    "overlap": Overlap.QUEUE,
    "jitter": HOUR,
    "description": "x",
    "firing": STORED.firing,
}


@pytest.mark.parametrize("name", [*MOVING, *RESTING])
def test_only_what_decides_about_slots_moves_the_next_one(name: str) -> None:
    info = ScheduleInfo(CODE, 1, NOW + 5 * HOUR, prev_fire=NOW - HOUR, runs=2)
    wanted = replace(CODE, **{name: {**MOVING, **RESTING}[name]})
    after = changed(info, wanted, NOW, every_hour)
    assert after.schedule == wanted
    assert after.next_fire == (NOW + HOUR if name in MOVING else NOW + 5 * HOUR)


@pytest.mark.parametrize("name", [*MOVING, *RESTING])
def test_only_another_trigger_gives_up_a_slot_that_is_due(name: str) -> None:
    late = NOW - 5 * HOUR
    info = ScheduleInfo(CODE, 1, late, prev_fire=late - HOUR, runs=2)
    after = changed(info, replace(CODE, **{name: {**MOVING, **RESTING}[name]}), NOW, every_hour)
    assert after.next_fire == (NOW + HOUR if name == "trigger" else late)


def test_a_slot_that_was_fired_does_not_come_again() -> None:
    ahead = ScheduleInfo(CODE, 1, NOW + 4 * HOUR, prev_fire=NOW + 3 * HOUR)
    after = changed(ahead, replace(CODE, trigger=b"new"), NOW, every_hour)
    assert after.next_fire == NOW + 4 * HOUR


def test_one_that_has_run_often_enough_gets_no_slot_until_it_may_run_again() -> None:
    spent = ScheduleInfo(replace(CODE, max_runs=3), 1, None, prev_fire=NOW - HOUR, runs=3)
    assert (
        changed(spent, replace(CODE, trigger=b"x", max_runs=3), NOW, every_hour).next_fire is None
    )
    assert changed(spent, replace(CODE, max_runs=4), NOW, every_hour).next_fire == NOW + HOUR


def test_one_that_was_stuck_is_looked_at_again() -> None:
    stuck = ScheduleInfo(CODE, 1, None, problem="there is no calendar")
    after = changed(stuck, CODE, NOW, every_hour)
    assert (after.next_fire, after.problem) == (NOW + HOUR, None)


@pytest.mark.parametrize(
    "owner, declared, expected",
    [
        (Owner.CODE, NOW - 2 * HOUR, True),
        (Owner.CODE, NOW - HOUR, False),
        (Owner.CODE, None, False),
        (Owner.OPERATOR, NOW - 2 * HOUR, False),
    ],
)
def test_only_what_code_declared_is_ever_abandoned(
    owner: Owner, declared: datetime | None, expected: bool
) -> None:
    info = ScheduleInfo(
        replace(CODE, owner=owner), 1, NOW, declared_at=declared, updated_at=NOW - HOUR / 2
    )
    assert is_abandoned(info, NOW, HOUR) is expected
