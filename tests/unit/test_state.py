"""If the table of moves says one thing and its readers another, every store goes its own way."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from detent.model.state import (
    LIVE,
    MOVES,
    TERMINAL,
    IllegalMove,
    State,
    Verb,
    diagram,
    move,
    sources,
    verbs,
)

STATES = st.sampled_from(State)
VERBS = st.sampled_from(Verb)


def test_every_state_is_either_live_or_terminal() -> None:
    assert {*LIVE} | {*TERMINAL} == {*State}
    assert not {*LIVE} & {*TERMINAL}


@given(STATES)
def test_a_state_knows_whether_it_is_terminal(state: State) -> None:
    assert state.terminal is (state in TERMINAL)


@given(STATES, VERBS)
def test_a_move_follows_the_table_or_is_illegal(state: State, verb: Verb) -> None:
    if (state, verb) in MOVES:
        assert move(state, verb) is MOVES[state, verb]
    else:
        with pytest.raises(IllegalMove) as refused:
            move(state, verb)
        assert (refused.value.state, refused.value.verb) == (state, verb)


@given(STATES, VERBS)
def test_verbs_and_sources_are_two_views_of_the_table(state: State, verb: Verb) -> None:
    assert (verb in verbs(state)) is (state in sources(verb)) is ((state, verb) in MOVES)
    assert len(set(verbs(state))) == len(verbs(state))


@given(STATES, VERBS)
def test_an_illegal_move_says_what_would_be_legal(state: State, verb: Verb) -> None:
    message = str(IllegalMove(state, verb))
    assert state in message
    assert verb in message
    assert all(allowed in message for allowed in verbs(state))


def test_only_an_operators_retry_leaves_a_terminal_state() -> None:
    for state in TERMINAL:
        assert verbs(state) == (Verb.RETRY,)
        assert move(state, Verb.RETRY) is State.PENDING
    assert {*sources(Verb.RETRY)} == {*TERMINAL}


def test_every_live_job_can_be_canceled() -> None:
    assert {*sources(Verb.CANCEL)} == {*LIVE}


def test_every_state_can_be_reached_and_every_live_one_can_end() -> None:
    assert reachable(State.PENDING) == {*State}
    for state in LIVE:
        assert reachable(state) & {*TERMINAL}


def test_a_job_runs_only_by_a_claim() -> None:
    into = [(source, verb) for (source, verb), target in MOVES.items() if target is State.RUNNING]
    assert into == [(State.PENDING, Verb.CLAIM)]


@given(st.lists(VERBS, max_size=40))
def test_a_job_that_ended_was_running_or_was_canceled(history: list[Verb]) -> None:
    state = State.PENDING
    for verb in history:
        if (state, verb) not in MOVES:
            continue
        after = move(state, verb)
        if after in (State.SUCCEEDED, State.FAILED):
            assert state is State.RUNNING
        if after.terminal and state is not State.RUNNING:
            assert verb is Verb.CANCEL
        state = after


def test_the_diagram_has_every_move_and_no_other() -> None:
    edges = re.findall(r"^    (\w+) --> (\w+): (\w+)$", diagram(), re.MULTILINE)
    drawn = {(State(source), Verb(verb)): State(target) for source, target, verb in edges}
    assert drawn == MOVES
    assert len(edges) == len(MOVES)
    assert diagram().startswith("stateDiagram-v2\n    [*] --> pending\n")


def reachable(start: State) -> set[State]:
    """Return every state that some history leads to."""
    found, ahead = {start}, [start]
    while ahead:
        state = ahead.pop()
        targets = {move(state, verb) for verb in verbs(state)} - found
        found |= targets
        ahead += targets
    return found
