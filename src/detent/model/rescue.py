"""What becomes of a claim whose node died.

A crash is never a failed attempt: the job may be innocent. Yet a job that kills its process must
not take its neighbours down for ever. So a job that has crashed often enough becomes a *suspect*:
it moves to a lane of its own, of which a node claims one at a time, and only a crash while it was
the node's only suspect is held against it for good.
"""

import json
from datetime import datetime
from typing import Final, NamedTuple
from uuid import UUID

from detent.model.job import LANE_SEPARATOR, SUSPECT
from detent.model.state import State

CRASHED: Final = "crashed"
_SUSPECTS: Final = LANE_SEPARATOR + SUSPECT


class LostClaim(NamedTuple):
    """A claim as the rescue finds it."""

    id: UUID
    fence: int
    node: UUID
    task: str
    queue: str
    lane: str
    crashes: int
    hooks: int
    cancel_requested: bool
    cancel_reason: str | None
    suspects: int
    """How many suspects the node held when it died, this one included."""
    node_name: str | None
    """None when the node's row is gone."""
    host: str | None
    pid: int | None
    fenced: bool
    """Whether the node had stopped its jobs itself before it was declared dead."""
    claimed_at: datetime


class Verdict(NamedTuple):
    """What is written: the state that follows, and where and how often crashed the job goes on."""

    state: State
    crashes: int
    lane: str
    crashed: bool = True
    """Whether it goes on record as a crash."""


def suspect_lane(lane: str) -> str:
    """Return the lane in which the suspects of a lane wait."""
    return lane if lane.endswith(_SUSPECTS) else lane + _SUSPECTS


def is_suspect(crashes: int, max_crashes: int) -> bool:
    """Tell whether one more crash may be the last."""
    return crashes >= max_crashes - 1


def judge(lost: LostClaim, max_crashes: int) -> Verdict:
    """Return what follows from the death of the node that held this claim."""
    if lost.cancel_requested:
        # A caller wanted it gone while it ran, and now it does not run any more.
        return Verdict(State.CANCELED, lost.crashes, lost.lane, not lost.fenced)
    if lost.fenced:
        return Verdict(State.PENDING, lost.crashes, lost.lane, crashed=False)
    crashes = lost.crashes + 1
    if not is_suspect(lost.crashes, max_crashes):
        lane = suspect_lane(lost.lane) if is_suspect(crashes, max_crashes) else lost.lane
        return Verdict(State.PENDING, crashes, lane)
    if lost.suspects == 1:
        return Verdict(State.FAILED, crashes, lost.lane)
    # Each of the suspects may have done it: none is charged, and each runs again.
    return Verdict(State.PENDING, lost.crashes, suspect_lane(lost.lane))


def evidence(lost: LostClaim, verdict: Verdict) -> bytes | None:
    """Return the crash in the form in which errors are stored; None if it was none."""
    if not verdict.crashed:
        return None
    if lost.node_name is None:
        who = f"node {lost.node}"
    else:
        who = f"node {lost.node_name} (pid {lost.pid} on {lost.host})"
    message = f"{who} died while it held this job, claimed at {lost.claimed_at.isoformat()}"
    if verdict.state is State.FAILED:
        message += f"; crash {verdict.crashes}, and it was the only suspect there"
    error = {"type": "NodeDied", "message": message, "traceback": ""}
    return json.dumps(error, ensure_ascii=False).encode()
