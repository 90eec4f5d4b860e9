"""If these fail, jobs stand in lanes that say something else than what was meant."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from detent.model.gates import (
    FAIR,
    KINDS,
    Gate,
    escaped,
    gate_name,
    gates_of,
    is_gated,
    unescaped,
    without_gates,
    written,
)
from detent.model.job import lane_of, needs_of, queue_of
from detent.model.limits import Admission, Limit, Opening
from detent.model.rates import NOTHING_TAKEN, Algorithm, Rate
from detent.model.rescue import suspect_lane

NOW = 1_750_000_000.0
NAMES = st.from_regex(r"[A-Za-z0-9_.\-]{1,20}", fullmatch=True)
KEYS = st.text(st.characters(codec="utf-8", exclude_categories=["C"]), min_size=1, max_size=50)
GATES = st.builds(
    lambda kind, name, key, weight: Gate(gate_name(kind, name, key), weight),
    st.sampled_from((*KINDS, FAIR)),
    KEYS,
    st.none() | KEYS,
    st.integers(1, 1000),
)


@given(KEYS)
def test_every_key_comes_back(key: str) -> None:
    text = escaped(key)
    assert unescaped(text) == key
    assert not set(text) & set("~+!*#")


@given(NAMES, st.lists(NAMES, max_size=3), st.lists(GATES, max_size=4), st.booleans())
def test_a_lane_says_what_it_is_made_of(
    queue: str, needs: list[str], gates: list[Gate], suspect: bool
) -> None:
    lane = lane_of(queue, needs, [written(gate) for gate in gates])
    plain = lane_of(queue, needs)
    if suspect:
        lane = suspect_lane(lane)
        assert suspect_lane(lane) == lane
    assert queue_of(lane) == queue
    assert needs_of(lane) == tuple(sorted(set(needs)))
    assert set(gates_of(lane)) == set(gates)
    assert is_gated(lane) == bool(gates)
    assert without_gates(lane) == plain


@given(KEYS, KEYS, KEYS)
def test_two_keys_never_share_a_gate(name: str, key: str, other: str) -> None:
    assert (gate_name("task", name, key) == gate_name("task", name, other)) == (key == other)
    assert Gate(gate_name("task", name, key)).definition == gate_name("task", name) + "#"


@given(
    st.lists(st.tuples(st.integers(1, 4), st.integers(1, 4), st.integers(0, 30)), max_size=12),
    st.integers(1, 20),
    st.integers(1, 20),
    st.integers(0, 20),
)
def test_no_more_is_handed_out_than_there_is(
    lanes: list[tuple[int, int, int]], first: int, second: int, used: int
) -> None:
    openings = {
        "task:a": Opening(Limit("task:a", first), NOW, used),
        "task:b": Opening(Limit("task:b", rate=Rate(second)), NOW),
    }
    admission = Admission(openings)
    passed = [0, 0]
    for one, other, wish in lanes:
        gates = [Gate("task:a", one), Gate("task:b", other)]
        room, narrow = admission.room(gates, wish)
        assert 0 <= room <= wish
        assert narrow is not None or room == wish
        admission.use(gates, room)
        passed[0] += one * room
        passed[1] += other * room
    assert used + passed[0] <= max(first, used)
    assert passed[1] <= second


@given(
    st.integers(1, 50),
    st.integers(1, 20),
    st.sampled_from(Algorithm),
    st.lists(st.floats(0, 0.5), min_size=1, max_size=60),
)
def test_a_rate_is_never_exceeded(
    count: int, burst: int, algorithm: Algorithm, pauses: list[float]
) -> None:
    windowed = algorithm is Algorithm.WINDOW
    rate = Rate(count, burst=None if windowed else burst, algorithm=algorithm)
    limit = Limit("rate:a", rate=rate)
    gate = Gate("rate:a")
    now, grants = NOW, NOTHING_TAKEN
    passes: list[tuple[float, int]] = []
    for pause in pauses:
        now += pause
        opening = Opening(limit, now, 0, grants)
        admission = Admission({"rate:a": opening})
        room, narrow = admission.room([gate], 1_000)
        admission.use([gate], room)
        assert narrow is not None
        wait = admission.wait(gate)
        assert wait, "it says when to come again"
        grants = opening.grants_after(rate)
        passes.append((now, room))
    most = count if windowed else count + burst
    for start, _ in passes:
        # Moments are not exact to the millionth.
        assert sum(number for at, number in passes if 0 <= at - start < 1 - 1e-6) <= most


@pytest.mark.parametrize(
    "name, concurrency, rate, words",
    [
        ("smtp", 1, None, "must be one of resource:"),
        ("fair:mail", 1, None, "must be one of"),
        ("task:", 1, None, "must be one of"),
        ("task:a", 0, None, "concurrency = 0: must be 1 to 1,000,000"),
        ("task:a", None, None, "must have a concurrency or a rate"),
        ("rate:a", 1, None, "can only have a rate"),
    ],
)
def test_impossible_limits(
    name: str, concurrency: int | None, rate: Rate | None, words: str
) -> None:
    with pytest.raises(ValueError, match=words):
        Limit(name, concurrency, rate)
