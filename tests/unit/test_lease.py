"""If these fail, an outage of the store counts as the death of nodes, or the dead live on."""

from datetime import UTC, datetime, timedelta

from hypothesis import given
from hypothesis import strategies as st

from detent.model.lease import Pulse, ends_at, witnessed_since

START = datetime(2030, 1, 1, tzinfo=UTC)
LEASE = 15.0
TICK = 0.5
# A heartbeat comes every five seconds; after one that failed, the next follows soon.
INTERVAL, RETRY = 5.0, 0.5

# Outages: how long the store answers, and how long it then is away.
weather = st.lists(st.tuples(st.floats(0.5, 120), st.floats(0.5, 120)), min_size=1, max_size=4).map(
    lambda spells: [(round(up * 2) / 2, round(down * 2) / 2) for up, down in spells]
)


def at(seconds: float) -> datetime:
    return START + timedelta(seconds=seconds)


def beat(pulse: Pulse, seconds: float) -> Pulse:
    return pulse.renewed(at(seconds), timedelta(seconds=LEASE))


def joined(seconds: float) -> Pulse:
    return Pulse(at(seconds), at(seconds + LEASE), at(seconds))


class Cluster:
    """Nodes that send heartbeats whenever the store answers, as the engine does."""

    def __init__(self, phases: list[float]) -> None:
        self.pulses = {number: joined(0) for number in range(len(phases))}
        self._next = dict(enumerate(phases))
        self.stopped: dict[int, float] = {}

    def tick(self, now: float, *, up: bool) -> None:
        for node, due in self._next.items():
            if now >= due and node not in self.stopped:
                if up:
                    self.pulses[node] = beat(self.pulses[node], now)
                self._next[node] = now + (INTERVAL if up else RETRY)

    def expired(self, now: float) -> list[int]:
        """Return whose lease is over, for a node that asks now."""
        witnessed = witnessed_since(self.pulses.values(), at(now))
        return [node for node, pulse in self.pulses.items() if ends_at(pulse, witnessed) <= at(now)]


def ticks(spells: list[tuple[float, float]]) -> list[tuple[float, bool]]:
    """Return the moments of some spells of weather, and whether the store answers."""
    found: list[tuple[float, bool]] = []
    now = 0.0
    for up, down in [*spells, (60.0, 0.0)]:
        for length, answers in ((up, True), (down, False)):
            found += [(now + TICK * step, answers) for step in range(int(length / TICK))]
            now += length
    return found


@given(st.lists(st.floats(0, INTERVAL), min_size=1, max_size=5), weather)
def test_while_no_node_dies_no_outage_ends_a_lease(
    phases: list[float], spells: list[tuple[float, float]]
) -> None:
    cluster = Cluster(phases)
    for now, up in ticks(spells):
        # The worst order: the node that expires others is faster than all heartbeats.
        if up:
            assert cluster.expired(now) == []
        cluster.tick(now, up=up)


@given(
    st.lists(st.floats(0, INTERVAL), min_size=2, max_size=5), weather, st.floats(1, 300), st.data()
)
def test_a_node_that_died_is_found_one_lease_later_if_the_store_answers(
    phases: list[float], spells: list[tuple[float, float]], dies_at: float, data: st.DataObject
) -> None:
    cluster = Cluster(phases)
    victim = data.draw(st.sampled_from(range(len(phases))))
    steady, found = 0.0, None
    for now, up in ticks(spells):
        steady = steady + TICK if up else 0.0
        if now >= dies_at:
            cluster.stopped[victim] = now
        if up and victim in cluster.expired(now):
            found = now
            break
        cluster.tick(now, up=up)
        if now >= dies_at + LEASE:
            # The others need one heartbeat to see that the store answers again.
            assert steady < LEASE + INTERVAL + 1
    if found is not None:
        assert found >= cluster.stopped.get(victim, 1e9)


def test_a_node_that_has_just_started_has_seen_nothing() -> None:
    dead, newcomer = joined(0), joined(100)
    witnessed = witnessed_since([dead, newcomer], at(101))
    assert ends_at(dead, witnessed) == at(115)


def test_a_node_that_does_not_beat_is_no_witness() -> None:
    """Both beat until an outage began: the lease that lasts longer proves nothing."""
    first, second = joined(0), joined(0)
    first, second = beat(first, 5), beat(second, 6)
    assert witnessed_since([first, second], at(20.5)) == at(20.5)
    assert witnessed_since([first, second], at(7)) == at(0)


def test_a_clock_that_jumps_is_a_gap() -> None:
    for jump in (-3600, 3600):
        pulse = beat(joined(0), 5)
        assert beat(pulse, 10).steady_since == at(0)
        assert beat(pulse, 10 + jump).steady_since == at(10 + jump)
        assert witnessed_since([pulse], at(10 + jump)) == at(10 + jump)


def test_a_witness_makes_leases_end_when_they_say() -> None:
    dead, witness = beat(joined(0), 50), Pulse(at(60), at(75), at(0))
    assert ends_at(dead, witnessed_since([dead, witness], at(65))) == dead.lease_until == at(65)
