"""If these fail, a job that is innocent dies, or one that kills its node lives for ever."""

import json
import random
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from detent.model.job import needs_of, queue_of
from detent.model.rescue import (
    TOGETHER,
    UNSTARTED,
    Autopsy,
    Held,
    LostClaim,
    Verdict,
    evidence,
    examine,
    is_suspect,
    judge,
    suspect_lane,
    together,
    turn,
)
from detent.model.state import State

ID = UUID(int=1)
DUE = datetime(2030, 1, 1, tzinfo=UTC)
MAX = 3

counts = st.integers(0, 50)
budgets = st.integers(2, 20)
few = st.integers(0, 5)


def lost(
    crashes: int = 0,
    *,
    suspects: int = 0,
    jobs: int = 10,
    alone: int = 0,
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
        priority=2,
        due_at=DUE,
        hooks=0,
        cancel_requested=cancel,
        cancel_reason="enough" if cancel else None,
        alone=alone,
        unstarted=0,
        node_name="web-1",
        host="host-1",
        pid=4711,
        fenced=fenced,
        autopsy=Autopsy(jobs, suspects, {}),
        claimed_at=datetime(2030, 1, 1, tzinfo=UTC),
    )


def said(claim: LostClaim) -> dict[str, str]:
    error = evidence(claim, judge(claim, MAX))
    assert error is not None
    found: dict[str, str] = json.loads(error)
    return found


def test_a_job_that_kills_its_node_each_time_fails_after_exactly_the_budget() -> None:
    lane, crashes, alone, died = "mail+gpu", 0, 0, 0
    while True:
        died += 1
        claim = lost(
            crashes, suspects=int(is_suspect(crashes, MAX)), jobs=1, alone=alone, lane=lane
        )
        verdict = judge(claim, MAX)
        if verdict.state is not State.PENDING:
            break
        lane, crashes, alone = verdict.lane, verdict.crashes, alone + verdict.alone
    assert (verdict.state, died) == (State.FAILED, 3)


@given(counts, budgets, few, few)
def test_only_what_was_alone_often_enough_fails(
    crashes: int, max_crashes: int, suspects: int, alone: int
) -> None:
    verdict = judge(lost(crashes, suspects=suspects, alone=alone), max_crashes)
    was_alone = is_suspect(crashes, max_crashes) and suspects == 1
    assert verdict.alone == was_alone
    assert (verdict.state is State.FAILED) == (was_alone and alone + 1 >= max_crashes)
    assert verdict.crashes == crashes + 1


@given(counts, budgets, few)
def test_suspects_wait_in_their_lane(crashes: int, max_crashes: int, suspects: int) -> None:
    verdict = judge(lost(crashes, suspects=suspects), max_crashes)
    if verdict.state is State.PENDING:
        in_the_dock = verdict.lane == suspect_lane("mail+gpu")
        assert in_the_dock == is_suspect(verdict.crashes, max_crashes)


@given(counts, budgets, few)
def test_what_was_to_be_canceled_is(crashes: int, max_crashes: int, suspects: int) -> None:
    verdict = judge(lost(crashes, suspects=suspects, cancel=True), max_crashes)
    assert verdict.state is State.CANCELED


@given(counts, budgets, few)
def test_what_its_node_stopped_itself_is_no_crash(
    crashes: int, max_crashes: int, suspects: int
) -> None:
    claim = lost(crashes, suspects=suspects, fenced=True)
    verdict = judge(claim, max_crashes)
    assert verdict == Verdict(State.PENDING, crashes, claim.lane, None)
    assert evidence(claim, verdict) is None


def test_each_further_crash_leaves_fewer_together() -> None:
    groups = [together(crashes, MAX) for crashes in range(2, 7)]
    assert groups == [*TOGETHER, 1, 1, 1]


# What a dead node held


def held_claim(lane: str, fence: int, *, crashes: int = 0) -> Held:
    return Held(lane, crashes, turn(fence, 2, DUE, ID))


def test_of_one_claim_the_best_begins_first() -> None:
    later = DUE + timedelta(seconds=1)
    turns = [
        turn(1, 2, later, ID),
        turn(2, 4, later, ID),
        turn(2, 2, DUE, ID),
        turn(2, 2, DUE, UUID(int=3)),
        turn(2, 2, later, ID),
    ]
    assert turns == sorted(turns)


def test_what_stands_behind_the_slots_had_not_begun() -> None:
    held = [held_claim("mail+gpu", fence) for fence in (5, 3, 4)]
    held += [held_claim("mail~task:shop.send", 6, crashes=1), held_claim("bulk", 9)]
    autopsy = examine(held, {"mail": 2, "bulk": 2}, MAX)
    assert autopsy == Autopsy(3, 0, {"mail": turn(4, 2, DUE, ID)})
    assert Autopsy.read(autopsy.written()) == autopsy
    for fence, begun in ((3, True), (4, True), (5, False), (6, False)):
        verdict = judge(lost()._replace(fence=fence, autopsy=autopsy), MAX)
        assert (verdict.crashes == 1) == begun
        assert (verdict.kind == UNSTARTED) != begun
    unknown = examine(held, {}, MAX)
    assert unknown == Autopsy(5, 0, {}), "how many slots it had is not known"


def test_suspects_have_always_begun() -> None:
    held = [held_claim("mail", 1), held_claim("mail", 2), held_claim("mail+!", 3, crashes=2)]
    autopsy = examine(held, {"mail": 1}, MAX)
    assert autopsy == Autopsy(2, 1, {"mail": turn(1, 2, DUE, ID)})
    verdict = judge(lost(2)._replace(fence=3, autopsy=autopsy), MAX)
    assert (verdict.crashes, verdict.alone) == (3, True)


def test_what_seems_not_to_have_begun_is_believed_once() -> None:
    claim = lost()._replace(autopsy=Autopsy(1, 0, {"mail": turn(6, 2, DUE, ID)}), unstarted=1)
    assert judge(claim, MAX).crashes == 1


# Histories


@dataclass
class Job:
    lane: str = "mail"
    crashes: int = 0
    alone: int = 0
    unstarted: int = 0
    state: State = State.PENDING


class History:
    """Jobs that nodes run one after the other, until all have ended."""

    def __init__(self, chance: random.Random, jobs: int, slots: int) -> None:
        self.chance = chance
        self.jobs = {number: Job() for number in range(jobs)}
        self.slots = slots
        self.deaths = 0
        self._fence = 0

    def pending(self) -> list[int]:
        return [number for number, job in self.jobs.items() if job.state is State.PENDING]

    def step(self, poison: dict[int, None], *, killed: bool) -> None:
        """Let a node claim, begin, and end all of it, or die of it."""
        suspects: list[int] = []
        others: list[int] = []
        for number in self.chance.sample(self.pending(), len(self.pending())):
            job = self.jobs[number]
            if not is_suspect(job.crashes, MAX):
                others.append(number)
            elif self._fits([*suspects, number]) and len(suspects) < self.slots:
                suspects.append(number)
        free = self.slots - len(suspects)
        claimed = others[: free + self.chance.randint(0, self.slots)]
        begun = [*suspects, *claimed[:free]]
        if killed or any(number in poison for number in begun):
            self._die([*suspects, *claimed])
        else:
            for number in begun:
                self.jobs[number].state = State.SUCCEEDED

    def _fits(self, suspects: list[int]) -> bool:
        return len(suspects) <= min(together(self.jobs[each].crashes, MAX) for each in suspects)

    def _die(self, claimed: list[int]) -> None:
        self.deaths += 1
        fences = {number: self._fence + place for place, number in enumerate(claimed)}
        self._fence += len(claimed)
        held = [
            held_claim(self.jobs[number].lane, fences[number], crashes=self.jobs[number].crashes)
            for number in claimed
        ]
        autopsy = examine(held, {"mail": self.slots}, MAX)
        for number in claimed:
            job = self.jobs[number]
            claim = lost(job.crashes, alone=job.alone, lane=job.lane)._replace(
                fence=fences[number], unstarted=job.unstarted, autopsy=autopsy
            )
            verdict = judge(claim, MAX)
            job.crashes, job.lane, job.state = verdict.crashes, verdict.lane, verdict.state
            job.alone += verdict.alone
            job.unstarted += verdict.kind == UNSTARTED


@given(st.integers(0, 10**9), st.integers(1, 120), st.integers(1, 100))
def test_one_culprit_is_found_and_takes_no_other_with_it(seed: int, jobs: int, slots: int) -> None:
    history = History(random.Random(seed), jobs, slots)
    while history.pending():
        history.step({0: None}, killed=False)
        # Twice at full width, once unseen, once for each smaller group, and alone.
        assert history.deaths <= 2 + 1 + len(TOGETHER) + MAX
    failed = [number for number, job in history.jobs.items() if job.state is State.FAILED]
    assert failed == [0]


@given(st.integers(0, 10**9), st.integers(2, 60), st.integers(1, 100), st.integers(2, 4))
def test_several_culprits_are_found(seed: int, jobs: int, slots: int, culprits: int) -> None:
    history = History(random.Random(seed), jobs, slots)
    poison = dict.fromkeys(range(min(culprits, jobs)))
    while history.pending():
        history.step(poison, killed=False)
        assert history.deaths <= len(poison) * (3 + len(TOGETHER) + MAX)
    assert all(history.jobs[number].state is State.FAILED for number in poison)


@given(st.integers(0, 10**9), st.integers(30, 60))
def test_two_kills_cost_thirty_innocents_one_round(seed: int, jobs: int) -> None:
    history = History(random.Random(seed), jobs, 100)
    for _ in range(2):
        history.step({}, killed=True)
    history.step({}, killed=False)
    assert history.pending() == []


def test_the_lane_of_suspects_is_still_their_queue_and_nobodys_capability() -> None:
    lane = suspect_lane("mail+gpu")
    assert (queue_of(lane), needs_of(lane)) == ("mail", ("gpu",))
    assert suspect_lane(lane) == lane


@pytest.mark.parametrize(
    "lane, what", [("mail+!", "the only suspect there"), ("mail", "the only job there")]
)
def test_the_evidence_names_the_node(lane: str, what: str) -> None:
    crashes = 2 if lane.endswith("!") else 0
    claim = lost(crashes, suspects=1, jobs=1, lane=lane)
    error = said(claim)
    assert error["type"] == "NodeDied"
    assert "node web-1 (pid 4711 on host-1) died" in error["message"]
    assert f"crash {crashes + 1}, and it was {what}" in error["message"]
    gone = said(claim._replace(node_name=None))
    assert str(UUID(int=2)) in gone["message"]
