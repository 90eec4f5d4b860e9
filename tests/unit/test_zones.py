"""If these fail, a local time is turned into a wrong instant somewhere in the world."""

import struct
from datetime import UTC, datetime, timedelta
from importlib.resources import files
from itertools import pairwise
from zoneinfo import ZoneInfo, available_timezones

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from detent.model.zones import instant_of, steady_until, wall_of, zone_of

ODD = (
    "Africa/Casablanca",
    "America/Sao_Paulo",
    "America/St_Johns",
    "Antarctica/Troll",
    "Asia/Beirut",
    "Asia/Kathmandu",
    "Australia/Lord_Howe",
    "Europe/Berlin",
    "Pacific/Apia",
)
WALLS = st.datetimes(datetime.fromisoformat("1995-01-01"), datetime.fromisoformat("2060-01-01"))


def offset_changes(zone: str) -> list[tuple[int, int, int]]:
    """The changes of a zone's offset as its file lists them: when, from, to. RFC 8536."""
    raw = files("tzdata.zoneinfo").joinpath(*zone.split("/")).read_bytes()
    # The first block has 32-bit times; skip it for the second.
    skip = 44
    utc, std, leap, times, types, chars = struct.unpack(">6l", raw[20:44])
    skip += times * 5 + types * 6 + chars + leap * 8 + std + utc
    head = raw[skip : skip + 44]
    assert head[:4] == b"TZif"
    utc, std, leap, times, types, chars = struct.unpack(">6l", head[20:44])
    at = skip + 44
    instants = struct.unpack(f">{times}q", raw[at : at + 8 * times])
    at += 8 * times
    indices = raw[at : at + times]
    at += times
    offsets = [struct.unpack(">l", raw[at + 6 * i : at + 6 * i + 4])[0] for i in range(types)]
    found, before = [], offsets[0]
    for instant, index in zip(instants, indices, strict=True):
        after = offsets[index]
        if after != before:
            found.append((instant, before, after))
        before = after
    return found


def test_the_world_is_as_the_rules_assume() -> None:
    """One change near any instant, and none longer than a day: else `zones` needs new rules."""
    seen = 0
    for zone in sorted(available_timezones() - {"localtime"}):
        changes = offset_changes(zone)
        seen += len(changes)
        for (one, _, _), (two, _, _) in pairwise(changes):
            assert two - one > 3 * 86_400, zone
        assert all(abs(after - before) <= 86_400 for _, before, after in changes), zone
    assert seen > 10_000


@pytest.mark.parametrize(
    "zone, wall, instant",
    [
        # Spring in Berlin: 02:30 does not exist; autumn: 02:30 exists twice.
        ("Europe/Berlin", "2026-03-29 02:30", "2026-03-29 01:00"),
        ("Europe/Berlin", "2026-03-29 02:00", "2026-03-29 01:00"),
        ("Europe/Berlin", "2026-03-29 03:00", "2026-03-29 01:00"),
        ("Europe/Berlin", "2026-10-25 02:30", "2026-10-25 00:30"),
        ("Europe/Berlin", "2026-10-25 03:00", "2026-10-25 02:00"),
        # Half an hour.
        ("Australia/Lord_Howe", "2026-10-04 02:15", "2026-10-03 15:30"),
        # Samoa left out December 30, 2011 altogether, and Kwajalein August 21, 1993.
        ("Pacific/Apia", "2011-12-30 09:00", "2011-12-30 10:00"),
        ("Pacific/Kwajalein", "1993-08-21 09:00", "1993-08-21 12:00"),
        # Days that begin at 01:00.
        ("America/Sao_Paulo", "2018-11-04 00:00", "2018-11-04 03:00"),
        ("Asia/Beirut", "2026-03-29 00:30", "2026-03-28 22:00"),
        # Alaska had a day twice.
        ("America/Juneau", "1867-10-18 20:00", "1867-10-18 04:57:41"),
    ],
)
def test_a_named_time_has_one_instant(zone: str, wall: str, instant: str) -> None:
    found = instant_of(datetime.fromisoformat(wall), ZoneInfo(zone))
    assert found == datetime.fromisoformat(instant).replace(tzinfo=UTC)


@settings(deadline=None)
@given(
    st.sampled_from(ODD),
    WALLS,
    st.integers(0, 7200),
)
def test_the_instant_of_a_wall_time_is_the_first_that_is_not_before_it(
    name: str, wall: datetime, seconds: int
) -> None:
    zone = ZoneInfo(name)
    instant = instant_of(wall, zone)
    assert wall_of(instant, zone) >= wall
    assert wall_of(instant - timedelta(microseconds=1), zone) < wall
    later = instant_of(wall + timedelta(seconds=seconds), zone)
    assert later >= instant, "the order of wall times is the order of their instants"


@settings(deadline=None)
@given(
    st.sampled_from(ODD),
    WALLS,
    st.integers(1, 86_400),
)
def test_clocks_go_on_steadily_until(name: str, moment: datetime, seconds: int) -> None:
    zone, moment = ZoneInfo(name), moment.replace(tzinfo=UTC)
    end = steady_until(moment, timedelta(seconds=seconds), zone)
    assert moment < end <= moment + timedelta(seconds=seconds)
    last = end - timedelta(microseconds=1)
    assert wall_of(last, zone) - wall_of(moment, zone) == last - moment


@pytest.mark.parametrize(
    "name, said",
    [
        ("Europe/Berln", "did you mean Europe/Berlin"),
        ("berlin", "did you mean Europe/Berlin?"),
        ("US/Estern", "US/Eastern"),
        ("Europe", "unknown"),
        ("", "use an IANA name"),
        ("../../etc/passwd", "use an IANA name"),
        ("localtime", "use an IANA name"),
        ("Europe/Berlin\0", "unknown"),
    ],
)
def test_an_unknown_zone_is_refused_with_the_nearest(name: str, said: str) -> None:
    with pytest.raises(ValueError, match="timezone=") as caught:
        zone_of(name)
    assert said in str(caught.value)
    assert "\n" not in str(caught.value)
