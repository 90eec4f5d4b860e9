"""If these fail, scans begin behind jobs that wait, or walk over dead rows for ever."""

from datetime import UTC, datetime, timedelta
from uuid import UUID

from detent._engine.floors import Floors, positions_in
from detent.model.job import Claim, Position
from detent.spi.notifier import Hint, SignalHint
from detent.spi.scans import Floor, LaneScan

MOMENT = datetime(2030, 1, 1, tzinfo=UTC)
LOWEST = UUID(int=0)


def at(seconds: float) -> datetime:
    return MOMENT + timedelta(seconds=seconds)


def claim(number: int, seconds: float, priority: int = 2, lane: str = "default") -> Claim:
    return Claim(
        id=UUID(int=number),
        fence=1,
        task="task",
        lane=lane,
        priority=priority,
        due_at=at(seconds),
        attempt=1,
        crashes=0,
        generation=1,
        hooks=0,
        args=b"",
        codec="json",
        options=None,
        params=None,
        tags=None,
    )


def position(number: int, seconds: float, priority: int = 2, lane: str = "default") -> Position:
    return Position(lane, priority, at(seconds), UUID(int=number))


def scans(floors: Floors) -> list[LaneScan]:
    """Return what a claim asks for at this moment."""
    return [LaneScan(lane, lane, 10, floors.of(lane)) for lane in ("default", "mail")]


def took(floors: Floors, *claims: Claim) -> None:
    """Take in a claim during which nothing else happened."""
    floors.raise_to(claims, scans(floors))


def test_at_first_every_scan_begins_at_the_beginning() -> None:
    assert list(Floors().of("default")) == [None] * 5


def test_a_floor_is_the_first_job_of_the_last_claim_of_its_lane_and_priority() -> None:
    floors = Floors()
    took(floors, claim(5, 10), claim(6, 11), claim(1, 3, 4), claim(9, 1, 2, "mail"))
    assert list(floors.of("default")) == [
        None,
        None,
        Floor(at(10), UUID(int=5)),
        None,
        Floor(at(3), UUID(int=1)),
    ]
    assert floors.of("mail")[2] == Floor(at(1), UUID(int=9))
    took(floors, claim(7, 20))
    assert floors.of("default")[2] == Floor(at(20), UUID(int=7))
    assert floors.of("default")[4] == Floor(at(3), UUID(int=1)), "of which nothing was claimed"


def test_a_job_that_comes_to_stand_below_lowers_the_floor() -> None:
    floors = Floors()
    took(floors, claim(5, 10))
    assert floors.lower_to([position(9, 4)])
    assert floors.of("default")[2] == Floor(at(4), UUID(int=9))


def test_what_lowers_a_floor_while_a_claim_is_on_its_way_is_not_forgotten() -> None:
    floors = Floors()
    took(floors, claim(5, 10))
    asked = scans(floors)
    floors.lower_to([position(9, 4)])
    floors.raise_to([claim(6, 20), claim(7, 21, 4)], asked)
    assert floors.of("default")[2] == Floor(at(4), UUID(int=9)), "the claim has not seen it"
    assert floors.of("default")[4] == Floor(at(21), UUID(int=7))
    floors.forget()
    floors.raise_to([claim(6, 20)], asked)
    assert floors.of("default")[2] is None


def test_jobs_above_on_other_lanes_or_without_a_floor_change_nothing() -> None:
    floors = Floors()
    took(floors, claim(5, 10))
    before = list(floors.of("default"))
    assert not floors.lower_to([position(9, 11), position(1, 1, 3), position(1, 1, 2, "mail")])
    assert not floors.lower_to([position(5, 10)])
    assert list(floors.of("default")) == before
    assert list(floors.of("mail")) == [None] * 5


def test_among_jobs_due_at_once_the_id_decides() -> None:
    floors = Floors()
    took(floors, claim(5, 10))
    assert floors.lower_to([position(4, 10)])
    assert floors.of("default")[2] == Floor(at(10), UUID(int=4))


def test_a_look_teaches_where_nothing_stands() -> None:
    floors = Floors()
    took(floors, claim(5, 10))
    head = position(3, 7, 4)
    assert not floors.learn(["default", "mail"], [head], at(8))
    default = floors.of("default")
    assert default[2] == Floor(at(10), UUID(int=5)), "what a claim knows counts more"
    assert default[4] == Floor(at(7), UUID(int=3)), "the first that waits"
    assert default[0] == default[1] == default[3] == Floor(at(8), LOWEST), "nothing before that"
    assert list(floors.of("mail")) == [Floor(at(8), LOWEST)] * 5


def test_a_look_that_finds_something_below_lowers_the_floor() -> None:
    floors = Floors()
    took(floors, claim(5, 10))
    assert floors.learn(["default"], [position(3, 7)], at(20))
    assert floors.of("default")[2] == Floor(at(7), UUID(int=3))


def test_a_later_look_never_raises_a_floor() -> None:
    floors = Floors()
    floors.learn(["default"], [], at(8))
    floors.learn(["default"], [], at(80))
    assert list(floors.of("default")) == [Floor(at(8), LOWEST)] * 5


def test_forgetting_begins_at_the_beginning_again() -> None:
    floors = Floors()
    took(floors, claim(5, 10))
    floors.forget()
    assert list(floors.of("default")) == [None] * 5


def test_what_is_handed_out_is_not_changed_by_handing_it_out() -> None:
    floors = Floors()
    before = floors.of("default")
    took(floors, claim(5, 10))
    assert list(before) == [None] * 5


def test_only_hints_with_a_position_carry_one() -> None:
    full = Hint("default", 2, at(1), UUID(int=1))
    wakes = (Hint("default"), Hint("default", 2), full, SignalHint(UUID(int=2)))
    assert positions_in(wakes) == [position(1, 1)]
