"""If this fails, some history of ends, crashes and operators lets a job overtake behind its key."""

import asyncio
from datetime import UTC, datetime, timedelta
from uuid import UUID

from hypothesis import given, settings
from hypothesis import strategies as st

from detent.model.gates import Gate, gate_name
from detent.model.job import Claim, Priority
from detent.model.limits import Holder, Limit
from detent.model.rescue import suspect_lane
from detent.model.state import State, Verb
from detent.spi.store import Change
from detent.stores.memory import MemoryStore
from detent.testing.conformance.builders import (
    HOUR,
    completion,
    failed,
    node_identity,
    parked,
    settlement,
)
from detent.testing.conformance.limits import asked, behind, lane

KEY = Gate(gate_name("task", "charge", "ada"))
LANES = (lane(KEY), lane(KEY, queue="mail"), suspect_lane(lane(KEY)))
ENDS = ("succeed", "fail", "again", "snooze", "park", "release", "crash")
STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("enqueue"), st.sampled_from([*Priority])),
        st.tuples(st.just("end"), st.sampled_from(ENDS)),
        st.tuples(st.just("wait"), st.sampled_from([0, 1, 5, 60])),
        st.tuples(st.just("control"), st.sampled_from([Verb.CANCEL, Verb.PAUSE, Verb.RESUME])),
        st.tuples(st.just("claim"), st.integers(0, 2)),
    ),
    max_size=60,
)


class History:
    """One key, one node at a time, and what has begun."""

    def __init__(self) -> None:
        self.now = datetime(2030, 1, 1, tzinfo=UTC)
        self.store = MemoryStore(lambda: self.now)
        self.node = UUID(int=0)
        self.claim: Claim | None = None
        self.open: UUID | None = None
        """What had begun and was put back: nothing else may begin before it has ended."""
        self.jobs: list[UUID] = []

    async def begin(self) -> None:
        await self.store.declare_limits([Limit("task:charge#", 1, ordered=True)])
        await self.join()

    async def join(self) -> None:
        node = node_identity()
        await self.store.join(node, 1_000 * HOUR)
        self.node = node.incarnation

    async def do(self, step: str, what: object) -> None:
        await getattr(self, f"_{step}")(what)

    async def _enqueue(self, priority: Priority) -> None:
        queue = "mail" if len(self.jobs) % 3 == 2 else "default"
        job = behind(KEY, queue=queue, priority=priority)
        await self.store.enqueue_jobs([job])
        self.jobs.append(job.id)

    async def _wait(self, seconds: int) -> None:
        self.now += timedelta(seconds=seconds)

    async def _claim(self, first: int) -> None:
        for number in range(len(LANES)):
            each = LANES[(first + number) % len(LANES)]
            queue = "mail" if each.startswith("mail") else "default"
            for claim in (await asked(self.store, self.node, each, queue=queue)).claims:
                assert self.claim is None, "one at a time"
                assert self.open in (None, claim.id), "overtaken"
                self.claim = claim

    async def _end(self, how: str) -> None:
        claim, self.claim = self.claim, None
        if claim is None:
            return
        if how == "crash":
            await self.store.declare_dead([self.node], "seen to die")
            (job,) = (await self.store.rescue(10, 3)).jobs
            self.open = None if job.state.terminal else claim.id
            await self.join()
            return
        if how == "release":
            await self.store.release_claims(self.node, [(claim.id, claim.fence)])
            return
        if how == "succeed":
            assert await self.store.finish_jobs(self.node, [completion(claim)]) == [claim.id]
        else:
            end = {
                "fail": failed(claim),
                "again": settlement(claim, State.PENDING, delay=0.0, charged=True),
                "snooze": settlement(claim, State.PENDING, delay=5.0),
                "park": parked(claim),
            }[how]
            assert await self.store.settle_jobs(self.node, [end]) == [claim.id]
        self.open = None if how in ("succeed", "fail") else claim.id

    async def _control(self, verb: Verb) -> None:
        for job_id in self.jobs[:3]:
            if self.claim is not None and self.claim.id == job_id:
                continue
            (info,) = await self.store.get_jobs([job_id])
            allowed = {
                Verb.CANCEL: not info.state.terminal,
                Verb.PAUSE: info.state is State.PENDING,
                Verb.RESUME: info.state is State.PAUSED,
            }[verb]
            if allowed:
                await self.store.control_job(verb, job_id, Change())
                if verb is Verb.CANCEL and job_id == self.open:
                    self.open = None
                return

    async def finish(self) -> None:
        """Everything that is not paused or parked comes to its end."""
        await self.store.adopt_jobs(["shop.send", "work", "send"], 100)
        for job_id in self.jobs:
            (info,) = await self.store.get_jobs([job_id])
            if info.state is State.PAUSED:
                await self.store.control_job(Verb.RESUME, job_id, Change())
        for _ in range(2 * len(self.jobs) + 2):
            await self._wait(60)
            await self._end("succeed")
            await self._claim(0)
        states = [info.state for info in await self.store.get_jobs(self.jobs)]
        assert all(state.terminal or state is State.WAITING for state in states), states


@settings(max_examples=150, deadline=None)
@given(STEPS)
def test_nothing_that_has_begun_is_overtaken_behind_its_key(
    steps: list[tuple[str, object]],
) -> None:
    async def run() -> None:
        history = History()
        await history.begin()
        for step, what in steps:
            await history.do(step, what)
        await history.finish()

    asyncio.run(run())


@given(st.text(max_size=3), st.text(max_size=3), st.floats(-10, 10))
def test_a_holder_starts_from_its_own_lane_when_it_is_due(
    here: str, there: str, due_in: float
) -> None:
    holder = Holder(UUID(int=1), here, due_in)
    assert holder.may_start_from(there) == (here == there and due_in <= 0)
