"""Gates: what the jobs of a lane have to pass before they run, as it is written in the lane's name.

All jobs that stand behind the same gates stand in one lane, `mail~resource:smtp~task:send#42`. So
a gate that is full closes lanes, and nobody ever walks over the jobs in them.
"""

from collections.abc import Mapping
from typing import Final, NamedTuple

from detent.model.job import GATE_SEPARATOR, LANE_SEPARATOR, SUSPECT, queue_of

RESOURCE: Final = "resource"
TASK: Final = "task"
RATE: Final = "rate"
QUEUE: Final = "queue"
FAIR: Final = "fair"
KINDS: Final = (RESOURCE, TASK, RATE, QUEUE)
"""The kinds of gates that have limits; fair ones only give each key its turn."""

KEY: Final = "#"
# Of more keys of one limit at once hints tell no more than that there are some.
FEW_KEYS: Final = 64
WEIGHT: Final = "*"
_SUSPECTS: Final = LANE_SEPARATOR + SUSPECT
_TASK: Final = f"{TASK}:"
# No key is written like this.
_WHOLE: Final = KEY + WEIGHT
# What has a meaning in a lane; in names and keys it is written as the percent sign and its code.
_SPECIAL: Final = {
    ord(sign): f"%{ord(sign):02X}"
    for sign in ("%", GATE_SEPARATOR, LANE_SEPARATOR, SUSPECT, WEIGHT, KEY)
}


class Gate(NamedTuple):
    """One gate of a lane, and how much of it each job of the lane takes."""

    name: str
    weight: int = 1

    @property
    def kind(self) -> str:
        """What sort of gate it is."""
        return self.name.partition(":")[0]

    @property
    def definition(self) -> str:
        """The name of the limit that holds here: all keys of a task have the same."""
        head, sign, _ = self.name.partition(KEY)
        return head + sign


def escaped(text: str) -> str:
    """Return a name or a key as it is written in the name of a gate."""
    return text.translate(_SPECIAL)


def unescaped(text: str) -> str:
    """Return what was escaped."""
    first, *rest = text.split("%")
    return first + "".join(chr(int(part[:2], 16)) + part[2:] for part in rest)


def gate_name(kind: str, name: str, key: str | None = None) -> str:
    """Return the name of a gate: `task:send`, and with a key `task:send#42`."""
    head = f"{kind}:{escaped(name)}"
    return head if key is None else f"{head}{KEY}{escaped(key)}"


def written(gate: Gate) -> str:
    """Return a gate as it stands in a lane."""
    return gate.name if gate.weight == 1 else f"{gate.name}{WEIGHT}{gate.weight}"


def is_gated(lane: str) -> bool:
    """Tell whether the jobs of a lane stand behind a gate."""
    return GATE_SEPARATOR in lane


def without_gates(lane: str) -> str:
    """Return the lane in which the same jobs would stand without gates, and as no suspects."""
    return lane.partition(GATE_SEPARATOR)[0].removesuffix(_SUSPECTS)


def gates_of(lane: str) -> tuple[Gate, ...]:
    """Return the gates that are written in the name of a lane."""
    if lane.endswith(_WHOLE):
        return (Gate(lane.partition(GATE_SEPARATOR)[2]),)
    gates = []
    for text in lane.removesuffix(_SUSPECTS).split(GATE_SEPARATOR)[1:]:
        name, sign, weight = text.partition(WEIGHT)
        gates.append(Gate(name, int(weight) if sign else 1))
    return tuple(gates)


def family_of(lane: str) -> str | None:
    """Return the family of a lane: its name without the key of its only gate, a task's limit.

    All lanes of a family differ in nothing but that key. None for lanes with other gates, and for
    those of suspects.
    """
    base, _, gates = lane.partition(GATE_SEPARATOR)
    name, sign, key = gates.partition(KEY)
    if not sign or GATE_SEPARATOR in gates or not name.startswith(_TASK) or WEIGHT in key:
        return None
    return None if lane.endswith(_SUSPECTS) else f"{base}{GATE_SEPARATOR}{name}"


def limit_of(family: str) -> str:
    """Return the name of the limit that holds for each key of a family."""
    return family.partition(GATE_SEPARATOR)[2] + KEY


def whole(family: str) -> str:
    """Return the name under which a node knows all lanes of a family together."""
    return family + _WHOLE


def any_of(family: str) -> str:
    """Return the lane under which hints tell of a family: something happened in some lane of it."""
    return family + KEY


def is_whole(lane: str) -> bool:
    """Tell whether this stands for all lanes of a family."""
    return lane.endswith(_WHOLE)


def told_lanes(lanes: Mapping[str, int | None]) -> dict[str, int | None]:
    """Return lanes to tell of, with priorities or None: of many of one family its name only."""
    if len(lanes) <= FEW_KEYS:
        return dict(lanes)
    members: dict[str | None, list[str]] = {}
    for lane in lanes:
        members.setdefault(family_of(lane), []).append(lane)
    told: dict[str, int | None] = {}
    for family, some in members.items():
        if family is None or len(some) <= FEW_KEYS:
            told |= {lane: lanes[lane] for lane in some}
        else:
            known = [urgent for lane in some if (urgent := lanes[lane]) is not None]
            told[any_of(family)] = max(known) if len(known) == len(some) else None
    return told


def behind(lane: str, other: str) -> str:
    """Return a lane, behind the gates of another instead of its own.

    Turns in the queue of the other mean nothing in this one's.
    """
    turns = gate_name(FAIR, queue_of(lane), "")
    gates = [gate for gate in gates_of(other) if gate.kind != FAIR or gate.name.startswith(turns)]
    return GATE_SEPARATOR.join((without_gates(lane), *map(written, gates)))
