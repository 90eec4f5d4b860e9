"""If these fail, some zone misses or doubles a cron slot. The whole world is `make cron-proof`."""

from datetime import UTC, date, datetime, time, timedelta
from zoneinfo import ZoneInfo

import pytest

from detent.model.triggers import CalendarInterval, DailyWindow, cron
from detent.model.zones import NextWall, next_named, next_passing
from tools.cron_oracle import Walk, read, transitions
from tools.cron_peers import prove_peers
from tools.cron_proof import PATTERNS, prove_zone
from tools.cron_random import ZONES, prove_random, prove_years
from tools.cron_tally import AROUND, HOUR

#: Half hours, two and three hours, whole days, midnights, one minute past it, twice in a Ramadan.
ODD = (
    "Africa/Casablanca",
    "America/Asuncion",
    "America/Caracas",
    "America/Sao_Paulo",
    "America/St_Johns",
    "Antarctica/Casey",
    "Antarctica/Troll",
    "Asia/Beirut",
    "Asia/Gaza",
    "Asia/Pyongyang",
    "Atlantic/Azores",
    "Australia/Lord_Howe",
    "Europe/Berlin",
    "Pacific/Apia",
    "Pacific/Fakaofo",
)


def sample(zone: str) -> list[tuple[int, int, int]]:
    """Two changes of an odd length, and three of the others."""
    changes = transitions(zone, 2000, 2037)
    odd = [change for change in changes if abs(change[2] - change[1]) != HOUR]
    plain = [change for change in changes if abs(change[2] - change[1]) == HOUR]
    return odd[:2] + plain[:: max(len(plain) // 3, 1)][:3]


@pytest.mark.parametrize("zone", ODD)
def test_slots_equal_those_of_the_oracle(zone: str) -> None:
    changes = sample(zone)
    assert changes
    tally = prove_zone(zone, changes)
    assert tally.is_clean, tally.differences[:5]


@pytest.mark.parametrize("zone", ZONES)
def test_random_expressions_have_the_slots_of_the_oracle(zone: str) -> None:
    tally = prove_random(zone, seed=0, count=60)
    assert tally.is_clean, tally.differences[:5]
    assert tally.comparisons > 200


def test_random_expressions_have_the_days_of_the_oracle() -> None:
    tally = prove_years(seed=0, count=300)
    assert tally.is_clean, tally.differences[:5]
    assert tally.refused, "some of them never happen"


def test_croniter_and_cronsim_agree_where_they_should() -> None:
    tally = prove_peers(seed=0, count=400)
    assert tally.is_clean, tally.differences[:5]
    assert tally.comparisons > 700


def test_there_are_twenty_expressions_of_both_kinds() -> None:
    named = sum(pattern.is_named for pattern in PATTERNS.values())
    assert named >= 10
    assert len(PATTERNS) - named >= 10


@pytest.mark.parametrize("zone", ["Pacific/Apia", "Asia/Beirut", "Australia/Lord_Howe"])
@pytest.mark.parametrize("hour, minute", [(0, 0), (0, 30), (1, 45), (2, 15), (23, 59)])
def test_other_triggers_keep_the_rule_for_named_times(zone: str, hour: int, minute: int) -> None:
    """Every day at 02:15, or a window from 02:15 on, begins when a cron at 02:15 does."""
    for change, _, _ in sample(zone):
        begin, end = change - 36 * HOUR, change + 36 * HOUR
        walk = Walk(zone, change - AROUND, change + AROUND)
        expected = walk.slots(read(f"{minute} {hour} * * *"), begin, end)
        at = time(hour, minute)
        later = (datetime.combine(date.min, at) + timedelta(minutes=1)).time()
        for trigger in (
            CalendarInterval(1, "days", at=at, start=date(1999, 1, 1), timezone=zone),
            # A step that is longer than the window: it has its first slot only.
            DailyWindow(timedelta(days=1), at, later, timezone=zone),
        ):
            found = []
            slot = trigger.next_after(datetime.fromtimestamp(begin - 1, UTC))
            while slot is not None and slot.timestamp() <= end:
                found.append(slot)
                slot = trigger.next_after(slot)
            assert found == expected, trigger


@pytest.mark.parametrize("instead", [next_passing, next_named])
def test_the_proof_notices_when_one_rule_stands_for_both(
    instead: object, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cron, "next_named", instead)
    monkeypatch.setattr(cron, "next_passing", instead)
    tally = prove_zone("Europe/Berlin", transitions("Europe/Berlin", 2026, 2026))
    assert tally.missed > 0
    assert tally.astray > 0
    assert tally.differences


def test_the_proof_notices_a_doubled_slot(monkeypatch: pytest.MonkeyPatch) -> None:
    """A trigger that stays where it is."""

    def stay(after: datetime, zone: ZoneInfo, next_wall: NextWall) -> datetime | None:
        slot = next_passing(after, zone, next_wall)
        return slot if slot is None or slot.minute != 30 or after.second == 59 else after

    monkeypatch.setattr(cron, "next_passing", stay)
    tally = prove_zone("Europe/Berlin", transitions("Europe/Berlin", 2026, 2026))
    assert tally.doubled > 0
