"""What a claim from gated lanes tells the store of their gates, and what is remembered of them."""

import hashlib
from collections.abc import Sequence
from functools import lru_cache
from typing import Final, NamedTuple
from weakref import WeakKeyDictionary

from detent.model.gates import FAIR, QUEUE, RESOURCE, TASK, Gate, gate_name, gates_of
from detent.spi.scans import LaneScan
from detent.stores.postgres.database import Database

# Where a gate stands among the limits of a running job; rates are not given back.
_PLACES: Final = {RESOURCE: 1, TASK: 2, QUEUE: 3}
MOST_GATES: Final = 10_000
# After so many claims by what is known at most it is counted anew: that also moves the floor.
COUNT_AFTER: Final = 16
# Of a lane that has given so many, as many are expected next time, and nobody counts them first.
MANY: Final = 100


class AskedGates(NamedTuple):
    """The gates of all lanes as numbers, and each of them once: as columns."""

    used: list[int]
    weights: list[int]
    ends: list[int]
    names: list[str]
    definitions: list[str]
    keys: list[int]
    required: list[bool]
    places: list[int]
    wishes: list[int]


def gates_asked(schema: str, scans: Sequence[LaneScan]) -> AskedGates:
    """Return the gates of some lanes."""
    numbers: dict[str, int] = {}
    gates: list[Gate] = []
    used: list[int] = []
    weights: list[int] = []
    ends: list[int] = []
    wishes: list[int] = []
    for scan in scans:
        for gate in (*gates_of(scan.lane), Gate(gate_name(QUEUE, scan.queue))):
            if gate.kind == FAIR:
                continue
            number = numbers.setdefault(gate.name, len(numbers) + 1)
            if number > len(gates):
                gates.append(gate)
                wishes.append(0)
            wishes[number - 1] += gate.weight * scan.room
            used.append(number)
            weights.append(gate.weight)
        ends.append(len(used))
    return AskedGates(
        used,
        weights,
        ends,
        [gate.name for gate in gates],
        [gate.definition for gate in gates],
        [lock_key(schema, gate.name) for gate in gates],
        [gate.kind != QUEUE for gate in gates],
        [_PLACES.get(gate.kind, 0) for gate in gates],
        wishes,
    )


@lru_cache(maxsize=10_000)
def lock_key(schema: str, gate: str) -> int:
    """Return the number under which those who want to pass a gate take turns, and are counted."""
    digest = hashlib.blake2b(f"detent gate {schema} {gate}".encode(), digest_size=8).digest()
    return int.from_bytes(digest, "big", signed=True)


class _Known(NamedTuple):
    """What is known of one gate."""

    floor: int = 0
    """No claim with an older fence counts: counting begins behind the dead rows before it."""
    most: int | None = None
    """How much was used at most, by claims up to a fence; None if that is not known."""
    since: int = 0
    age: int = 0
    """How many claims ago it was counted, at most."""


_NOTHING: Final = _Known()


class GateMemory:
    """What this process remembers of gates and lanes, so that not every claim has to count.

    Fences of one gate only grow, and ends only make it emptier. So what is remembered may be old,
    but never wrong.
    """

    def __init__(self) -> None:
        self._known: dict[str, _Known] = {}
        self._full: dict[str, None] = {}
        self._server: float | None = None

    def of(self, gates: AskedGates) -> tuple[list[int], list[int | None], list[int], float | None]:
        """Return floors, how much is used at most and since when, and the server that holds for."""
        known = [self._known.get(gate, _NOTHING) for gate in gates.names]
        return (
            [each.floor for each in known],
            [each.most if each.age < COUNT_AFTER else None for each in known],
            [each.since for each in known],
            self._server,
        )

    def expects_many(self, scans: Sequence[LaneScan]) -> bool:
        """Tell whether a single lane is asked, of which more can be expected than it may give."""
        return len(scans) == 1 and scans[0].lane in self._full and scans[0].room >= MANY

    def learn(
        self,
        gates: AskedGates,
        floors: Sequence[int | None],
        mosts: Sequence[int | None],
        server: float,
        fence: int | None,
    ) -> None:
        """Take in what a claim has counted, and its own fence if it took something.

        A floor is None where nothing counts that is older than the claim.
        """
        if server != self._server or len(self._known) > MOST_GATES:
            self._known.clear()
            self._server = server
        for gate, floor, most in zip(gates.names, floors, mosts, strict=True):
            if most is None:
                continue
            before = self._known.get(gate, _NOTHING)
            if fence is not None:
                age = before.age + 1 if before.age < COUNT_AFTER else 0
                self._known[gate] = _Known(fence if floor is None else floor, most, fence, age)
            elif floor is not None:
                # Up to which fence this is true is not known.
                self._known[gate] = before._replace(floor=max(floor, before.floor))

    def took(self, scans: Sequence[LaneScan], count: int) -> None:
        """Take in how many jobs the lanes have given."""
        if len(scans) > 1:
            return
        lane, room = scans[0].lane, scans[0].room
        if count < room:
            self._full.pop(lane, None)
        elif room >= MANY:
            self._full[lane] = None
            if len(self._full) > MOST_GATES:
                self._full.clear()


_memories: Final[WeakKeyDictionary[Database, GateMemory]] = WeakKeyDictionary()


def gate_memory(database: Database) -> GateMemory:
    """Return what this process knows of the gates of a database."""
    return _memories.setdefault(database, GateMemory())


@lru_cache(maxsize=10_000)
def share_of(lane: str) -> str | None:
    """Return the gate of the fair share in which the jobs of a lane have their turns, if any."""
    return next((gate.name for gate in gates_of(lane) if gate.kind == FAIR), None)
