"""If these fail, urgent jobs wait behind others, or some keys have more than their share."""

from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from detent._engine.lane import KnownLane
from detent._engine.turns import Turn, Turns, in_order

BOOST = 900.0


def lane(key: str, *, priority: int | None = 2, due: float = 0.0, weight: int = 1) -> KnownLane:
    """Return the lane of a share, whose head has that priority."""
    sign = f"*{weight}" if weight > 1 else ""
    known = KnownLane(f"mail~fair:mail#{key}{sign}")
    known.head = None if priority is None else (priority, due)
    return known


def plain(key: str, *, priority: int = 2, due: float = 0.0) -> KnownLane:
    """Return a lane that is in no share."""
    known = KnownLane(f"mail~task:send#{key}")
    known.head = (priority, due)
    return known


def served(turns: Turns, lanes: list[KnownLane], count: int, *, room: int = 1) -> list[str]:
    """Give out jobs, as if every lane had enough of them."""
    names = []
    for _ in range(count):
        for known, count_here, _least in turns.choose(lanes, room, 64, 10.0):
            names += [known.lane] * count_here
            turns.took(known, count_here)
    return names


@given(st.lists(st.integers(1, 9), min_size=2, max_size=6), st.integers(1, 12), st.integers(20, 60))
def test_shares_are_by_weight_however_many_slots_are_free(
    weights: list[int], room: int, rounds: int
) -> None:
    lanes = [lane(str(number), weight=weight) for number, weight in enumerate(weights)]
    counts = Counter(served(Turns(BOOST), lanes, rounds, room=room))
    for known in lanes:
        fair = rounds * room * known.weight / sum(weights)
        assert counts[known.lane] == pytest.approx(fair, abs=room + known.weight + 1)


@given(st.integers(1, 20), st.integers(1, 100))
def test_all_room_is_given_away(lanes: int, room: int) -> None:
    asked = Turns(BOOST).choose([lane(str(each)) for each in range(lanes)], room, 8, 0.0)
    assert sum(turn.room for turn in asked) == room
    assert len(asked) <= 8


def test_beside_other_queues_the_most_urgent_are_asked_alone() -> None:
    low, high, aged = lane("a", priority=1), plain("b", priority=3), lane("c", priority=1)
    aged.head = (1, -2 * BOOST)
    asked = Turns(BOOST).choose([low, high, aged], 10, 64, 1.0, alone=False)
    assert {turn.known for turn in asked} == {high, aged}
    assert {turn.least for turn in asked} == {3}
    unaged = Turns(0.0).choose([low, high, aged], 10, 64, 1.0, alone=False)
    assert [turn.known for turn in unaged] == [high]


def test_what_is_less_urgent_is_asked_last_and_for_what_is_left() -> None:
    lanes = [lane(str(priority), priority=priority) for priority in (1, 4, 2)]
    asked = Turns(BOOST).choose(lanes, 10, 64, 1.0)
    assert [(turn.known.head, turn.least) for turn in asked] == [
        ((4, 0.0), 4),
        ((2, 0.0), 2),
        ((1, 0.0), 1),
    ]
    assert [turn.known.head for turn in Turns(BOOST).choose(lanes, 1, 64, 1.0)] == [(4, 0.0)]


def test_one_lane_alone_may_give_all_it_has() -> None:
    ((_, room, least),) = Turns(BOOST).choose([lane("a", priority=4)], 10, 64, 1.0)
    assert (room, least) == (10, 0)


def test_lanes_of_which_nothing_is_known_are_looked_at() -> None:
    lanes = [lane(str(number), priority=None) for number in range(5)]
    asked = Turns(BOOST).choose([lane("known"), *lanes], 2, 64, 1.0)
    assert sum(turn.room for turn in asked) == 2
    assert {turn.known for turn in asked} >= set(lanes)


def test_lanes_in_no_share_keep_their_order() -> None:
    lanes = [plain(str(due), due=due) for due in (3.0, 1.0, 2.0)]
    asked = Turns(BOOST).choose(lanes, 2, 64, 10.0)
    assert [turn.known.head for turn in asked] == [(2, 1.0), (2, 2.0)]


@given(st.integers(1, 5), st.floats(0, 9), st.floats(0, 9), st.integers(1, 5))
def test_a_lane_without_gates_takes_turns_with_those_that_have_some(
    gated: int, due: float, ungated_due: float, room: int
) -> None:
    lanes = [plain(str(number), due=due) for number in range(gated)]
    ungated = KnownLane("mail", beside=True)
    ungated.head = (2, ungated_due)
    rounds = 6 * (gated + 1)
    counts = Counter(served(Turns(BOOST), [*lanes, ungated], rounds, room=room))
    assert counts["mail"] == pytest.approx(6 * room, abs=room + 1)


def test_of_equal_turns_the_oldest_head_is_first() -> None:
    ungated = KnownLane("mail", beside=True)
    for own, other in ((1.0, 2.0), (2.0, 1.0)):
        ungated.head = (2, own)
        lanes = [ungated, plain("a", due=other)]
        ((first, *_),) = Turns(BOOST).choose(lanes, 1, 64, 10.0)
        assert first is min(lanes, key=lambda known: known.head or (0, 0.0))


def test_a_lane_without_gates_tells_what_it_has_before_another_gets_the_last_slot() -> None:
    ungated, low = KnownLane("mail", beside=True), plain("a", priority=0)
    assert Turns(BOOST).choose([low, ungated], 1, 64, 10.0) == [Turn(ungated, 0, 0)]
    # While there is a slot for each, none has to wait for the answer.
    asked = Turns(BOOST).choose([low, ungated], 2, 64, 10.0)
    assert {turn.known.lane: turn.room for turn in asked} == {low.lane: 1, "mail": 1}


def test_who_comes_back_has_no_turns_saved_up() -> None:
    turns, idle, busy = Turns(BOOST), lane("idle"), lane("busy")
    served(turns, [busy], 100)
    counts = Counter(served(turns, [idle, busy], 20))
    assert counts[idle.lane] == pytest.approx(10, abs=1)


def test_the_most_urgent_of_several_queues_come_first() -> None:
    one = [Turn(plain("a", priority=4), 1, 0), Turn(plain("b", due=5.0), 1, 0)]
    # Within a queue it is not only urgency that counts.
    other = [Turn(lane("c", due=3.0), 1, 0), Turn(lane("d", due=1.0), 1, 0)]
    third = [Turn(lane("e", priority=None), 1, 0), Turn(plain("f", due=4.0), 1, 0)]
    turns = in_order([one, other, third], BOOST, 10.0)
    assert [turn.known.lane[-1] for turn in turns] == list("eacdfb")
