"""The law of job states: without this table every store would invent its own.

A job is always in exactly one state, and a state is the place where its row lives. Only the
verbs below move a job, and only along the rows of `MOVES`; stores and engine follow this table
and never decide for themselves. The diagram in the documentation is drawn from it.

Terminal states are final. The one way out is an operator's `retry`, which archives the outcome
with the attempts and gives the job a new generation.
"""

from enum import StrEnum
from typing import Final


class State(StrEnum):
    """Where a job is in its life."""

    PENDING = "pending"
    WAITING = "waiting"
    RUNNING = "running"
    PAUSED = "paused"
    SUCCEEDED = "succeeded"
    FAILED = "failed"
    CANCELED = "canceled"

    @property
    def terminal(self) -> bool:
        """Whether nothing but an operator's retry leads out of this state."""
        return self in TERMINAL


class Verb(StrEnum):
    """What can happen to a job."""

    CLAIM = "claim"
    SUCCEED = "succeed"
    FAIL = "fail"
    REQUEUE = "requeue"
    PARK = "park"
    WAKE = "wake"
    CANCEL = "cancel"
    PAUSE = "pause"
    RESUME = "resume"
    RESCHEDULE = "reschedule"
    RETRY = "retry"


class IllegalMove(Exception):
    """A verb that the current state does not allow."""

    def __init__(self, state: State, verb: Verb) -> None:
        allowed = ", ".join(verbs(state)) or "nothing"
        super().__init__(f"a {state} job cannot {verb}; it can {allowed}")
        self.state = state
        self.verb = verb


TERMINAL: Final = (State.SUCCEEDED, State.FAILED, State.CANCELED)
LIVE: Final = (State.PENDING, State.WAITING, State.RUNNING, State.PAUSED)

MOVES: Final[dict[tuple[State, Verb], State]] = {
    (State.PENDING, Verb.CLAIM): State.RUNNING,
    (State.PENDING, Verb.PAUSE): State.PAUSED,
    (State.PENDING, Verb.PARK): State.WAITING,
    (State.PENDING, Verb.CANCEL): State.CANCELED,
    (State.PENDING, Verb.RESCHEDULE): State.PENDING,
    (State.WAITING, Verb.WAKE): State.PENDING,
    (State.WAITING, Verb.CANCEL): State.CANCELED,
    (State.RUNNING, Verb.SUCCEED): State.SUCCEEDED,
    (State.RUNNING, Verb.FAIL): State.FAILED,
    (State.RUNNING, Verb.REQUEUE): State.PENDING,
    (State.RUNNING, Verb.PARK): State.WAITING,
    (State.RUNNING, Verb.CANCEL): State.CANCELED,
    (State.PAUSED, Verb.RESUME): State.PENDING,
    (State.PAUSED, Verb.CANCEL): State.CANCELED,
    (State.PAUSED, Verb.RESCHEDULE): State.PAUSED,
    (State.SUCCEEDED, Verb.RETRY): State.PENDING,
    (State.FAILED, Verb.RETRY): State.PENDING,
    (State.CANCELED, Verb.RETRY): State.PENDING,
}


def move(state: State, verb: Verb) -> State:
    """Return the state that follows, or raise `IllegalMove`."""
    try:
        return MOVES[state, verb]
    except KeyError:
        raise IllegalMove(state, verb) from None


def verbs(state: State) -> tuple[Verb, ...]:
    """Return what may happen to a job in this state, in the order of the table."""
    return tuple(verb for (source, verb) in MOVES if source is state)


def sources(verb: Verb) -> tuple[State, ...]:
    """Return the states from which a verb is allowed."""
    return tuple(source for (source, known) in MOVES if known is verb)


def diagram() -> str:
    """Return the state machine as a Mermaid diagram, for the documentation."""
    edges = [f"    {source} --> {target}: {verb}" for (source, verb), target in MOVES.items()]
    return "\n".join(["stateDiagram-v2", "    [*] --> pending", *edges])
