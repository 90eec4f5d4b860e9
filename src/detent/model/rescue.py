"""What becomes of a claim whose node died.

A crash is never a failed attempt: the job may be innocent. Yet a job that kills its process must
not take its neighbours down for ever. So a job that has crashed often enough becomes a *suspect*:
it moves to a lane of its own. A node runs suspects together, and each further crash leaves fewer of
them together, until one is alone. A job fails for good only by crashes that no other can have
caused.
"""

import json
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime, timedelta
from typing import Final, NamedTuple, Self
from uuid import UUID

from detent.model.job import LANE_SEPARATOR, SUSPECT, queue_of
from detent.model.state import State

CRASHED: Final = "crashed"
UNSTARTED: Final = "unstarted"
"""The node died, and cannot have begun the job."""
_SUSPECTS: Final = LANE_SEPARATOR + SUSPECT
SUSPECTED: Final = 2
"""So many crashes make a suspect."""
# How many suspects may run on one node after as many crashes as suspects; then each runs alone. An
# eighth each time finds one of 64 in two crashes; half each time would take six.
TOGETHER: Final = (64, 8)


Turn = tuple[int, int, int, str]
"""When a node begins a job, beside the others of its queue."""
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)


def turn(fence: int, priority: int, due_at: datetime, job_id: UUID) -> Turn:
    """Return the turn of a claim: jobs begin as they were claimed, and of one claim the best first.

    Ageing may have put them in another order. That is rare, and what follows is bounded.
    """
    return fence, -priority, (due_at - _EPOCH) // timedelta(microseconds=1), job_id.hex


class Held(NamedTuple):
    """A claim of a dead node, as far as it says which job can have killed it."""

    lane: str
    crashes: int
    turn: Turn


class Autopsy(NamedTuple):
    """What a node held when it died; taken once, before the first of its claims is ended."""

    jobs: int
    """How many jobs can have been running."""
    suspects: int
    """How many of them were suspects."""
    begun: Mapping[str, Turn]
    """Queue to the last turn that can have come; all have in a queue that is not in it."""

    def written(self) -> str:
        """Return it in the form in which it is stored."""
        return json.dumps(self)

    @classmethod
    def read(cls, text: str) -> Self:
        """Return what was stored."""
        jobs, suspects, begun = json.loads(text)
        return cls(jobs, suspects, {queue: (*last,) for queue, last in begun.items()})


class LostClaim(NamedTuple):
    """A claim as the rescue finds it."""

    id: UUID
    fence: int
    node: UUID
    task: str
    queue: str
    lane: str
    crashes: int
    priority: int
    due_at: datetime
    hooks: int
    cancel_requested: bool
    cancel_reason: str | None
    alone: int
    """How many crashes are on record that no other job can have caused."""
    unstarted: int
    """How many nodes died that cannot have begun it."""
    node_name: str | None
    """None when the node's row is gone."""
    host: str | None
    pid: int | None
    fenced: bool
    """Whether the node had stopped its jobs itself before it was declared dead."""
    autopsy: Autopsy | None
    """None when the node's row is gone."""
    claimed_at: datetime

    @property
    def turn(self) -> Turn:
        """When the node was to begin it."""
        return turn(self.fence, self.priority, self.due_at, self.id)


class Verdict(NamedTuple):
    """What is written: the state that follows, and where and how often crashed the job goes on."""

    state: State
    crashes: int
    lane: str
    kind: str | None = CRASHED
    """What goes on record as an attempt; None for nothing."""
    alone: bool = False
    """Whether no other job can have caused this crash."""


def suspect_lane(lane: str) -> str:
    """Return the lane in which the suspects of a lane wait."""
    return lane if lane.endswith(_SUSPECTS) else lane + _SUSPECTS


def _suspected(max_crashes: int) -> int:
    return min(SUSPECTED, max_crashes - 1)


def is_suspect(crashes: int, max_crashes: int) -> bool:
    """Tell whether a job may have killed its nodes."""
    return crashes >= _suspected(max_crashes)


def together(crashes: int, max_crashes: int) -> int:
    """Return how many suspects may run on one node beside a suspect with so many crashes, it
    included.
    """
    stage = crashes - _suspected(max_crashes)
    return TOGETHER[stage] if stage < len(TOGETHER) else 1


def examine(held: Iterable[Held], slots: Mapping[str, int], max_crashes: int) -> Autopsy:
    """Return what the claims of a dead node say.

    A node begins the jobs of a queue in the order of their claims, and never more at once than it
    has slots. So what stands behind that many others was waiting. Suspects never wait: a node
    claims them for free slots only.
    """
    suspects = 0
    turns: dict[str, list[Turn]] = {}
    for claim in held:
        if is_suspect(claim.crashes, max_crashes):
            suspects += 1
        else:
            turns.setdefault(queue_of(claim.lane), []).append(claim.turn)
    begun = {
        queue: sorted(found)[slots[queue] - 1]
        for queue, found in turns.items()
        if 0 < slots.get(queue, 0) < len(found)
    }
    jobs = sum(min(len(found), slots.get(queue) or len(found)) for queue, found in turns.items())
    return Autopsy(jobs + suspects, suspects, begun)


def _has_begun(lost: LostClaim, max_crashes: int) -> bool:
    if lost.autopsy is None or is_suspect(lost.crashes, max_crashes):
        return True
    return lost.turn <= lost.autopsy.begun.get(queue_of(lost.lane), lost.turn)


def _was_alone(lost: LostClaim, max_crashes: int) -> bool:
    """Tell whether no other job can have killed the node, as far as suspicion goes."""
    if lost.autopsy is None:
        return False
    if is_suspect(lost.crashes, max_crashes):
        return lost.autopsy.suspects == 1
    return lost.autopsy.jobs == 1


def judge(lost: LostClaim, max_crashes: int) -> Verdict:
    """Return what follows from the death of the node that held this claim."""
    if lost.cancel_requested:
        # A caller wanted it gone while it ran, and now it does not run any more.
        return Verdict(State.CANCELED, lost.crashes, lost.lane, None if lost.fenced else CRASHED)
    if lost.fenced:
        return Verdict(State.PENDING, lost.crashes, lost.lane, None)
    if not lost.unstarted and not _has_begun(lost, max_crashes):
        # Once: a job that did begin, although it does not look like it, is found out all the same.
        return Verdict(State.PENDING, lost.crashes, lost.lane, UNSTARTED)
    crashes, alone = lost.crashes + 1, _was_alone(lost, max_crashes)
    if alone and lost.alone + 1 >= max_crashes:
        return Verdict(State.FAILED, crashes, lost.lane, alone=True)
    lane = suspect_lane(lost.lane) if is_suspect(crashes, max_crashes) else lost.lane
    return Verdict(State.PENDING, crashes, lane, alone=alone)


def evidence(lost: LostClaim, verdict: Verdict) -> bytes | None:
    """Return the crash in the form in which errors are stored; None if nothing is on record."""
    if verdict.kind is None:
        return None
    if lost.node_name is None:
        who = f"node {lost.node}"
    else:
        who = f"node {lost.node_name} (pid {lost.pid} on {lost.host})"
    message = f"{who} died while it held this job, claimed at {lost.claimed_at.isoformat()}"
    if verdict.kind == UNSTARTED:
        message += ", and had not begun it"
    elif verdict.alone:
        what = "suspect" if lost.lane.endswith(_SUSPECTS) else "job"
        message += f"; crash {verdict.crashes}, and it was the only {what} there"
    error = {"type": "NodeDied", "message": message, "traceback": ""}
    return json.dumps(error, ensure_ascii=False).encode()
