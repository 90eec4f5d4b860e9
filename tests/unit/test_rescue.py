"""If these fail, a job that is innocent dies, or one that kills its node lives for ever."""

import json
from datetime import UTC, datetime
from uuid import UUID

from hypothesis import given
from hypothesis import strategies as st

from detent.model.job import needs_of, queue_of
from detent.model.rescue import LostClaim, evidence, is_suspect, judge, suspect_lane
from detent.model.state import State

ID = UUID(int=1)


def lost(
    crashes: int = 0,
    *,
    suspects: int = 0,
    cancel: bool = False,
    fenced: bool = False,
    lane: str = "mail+gpu",
) -> LostClaim:
    return LostClaim(
        id=ID,
        fence=7,
        node=UUID(int=2),
        task="shop.send",
        queue="mail",
        lane=lane,
        crashes=crashes,
        hooks=0,
        cancel_requested=cancel,
        cancel_reason="enough" if cancel else None,
        suspects=suspects,
        node_name="web-1",
        host="host-1",
        pid=4711,
        fenced=fenced,
        claimed_at=datetime(2030, 1, 1, tzinfo=UTC),
    )


def said(claim: LostClaim) -> dict[str, str]:
    error = evidence(claim, judge(claim, 3))
    assert error is not None
    found: dict[str, str] = json.loads(error)
    return found


def test_a_job_that_kills_its_node_each_time_fails_after_exactly_the_budget() -> None:
    lane, crashes, died = "mail+gpu", 0, 0
    while True:
        died += 1
        alone = int(is_suspect(crashes, 3))
        verdict = judge(lost(crashes, suspects=alone, lane=lane), 3)
        if verdict.state is not State.PENDING:
            break
        lane, crashes = verdict.lane, verdict.crashes
    assert (verdict.state, died) == (State.FAILED, 3)


@given(st.integers(0, 50), st.integers(2, 20), st.integers(0, 5))
def test_only_an_only_suspect_fails(crashes: int, max_crashes: int, suspects: int) -> None:
    verdict = judge(lost(crashes, suspects=suspects), max_crashes)
    may_fail = crashes >= max_crashes - 1 and suspects == 1
    assert (verdict.state is State.FAILED) == may_fail
    assert crashes <= verdict.crashes <= crashes + 1


@given(st.integers(0, 50), st.integers(2, 20), st.integers(0, 5))
def test_whoever_may_fail_next_runs_among_the_suspects(
    crashes: int, max_crashes: int, suspects: int
) -> None:
    verdict = judge(lost(crashes, suspects=suspects), max_crashes)
    if verdict.state is State.PENDING:
        in_the_dock = verdict.lane == suspect_lane("mail+gpu")
        assert in_the_dock == is_suspect(verdict.crashes, max_crashes)


@given(st.integers(0, 50), st.integers(2, 20), st.integers(0, 5))
def test_what_was_to_be_canceled_is(crashes: int, max_crashes: int, suspects: int) -> None:
    verdict = judge(lost(crashes, suspects=suspects, cancel=True), max_crashes)
    assert verdict.state is State.CANCELED


@given(st.integers(0, 50), st.integers(2, 20), st.integers(0, 5))
def test_what_its_node_stopped_itself_is_no_crash(
    crashes: int, max_crashes: int, suspects: int
) -> None:
    claim = lost(crashes, suspects=suspects, fenced=True)
    verdict = judge(claim, max_crashes)
    assert verdict == (State.PENDING, crashes, claim.lane, False)
    assert evidence(claim, verdict) is None


def test_the_lane_of_suspects_is_still_their_queue_and_nobodys_capability() -> None:
    lane = suspect_lane("mail+gpu")
    assert (queue_of(lane), needs_of(lane)) == ("mail", ("gpu",))
    assert suspect_lane(lane) == lane


def test_the_evidence_names_the_node() -> None:
    claim = lost(2, suspects=1)
    error = said(claim)
    assert error["type"] == "NodeDied"
    assert "node web-1 (pid 4711 on host-1) died" in error["message"]
    assert "crash 3, and it was the only suspect there" in error["message"]
    gone = said(claim._replace(node_name=None))
    assert str(UUID(int=2)) in gone["message"]
