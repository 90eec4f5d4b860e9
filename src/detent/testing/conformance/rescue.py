"""What `RescueStore` promises: the jobs of dead nodes go on, and poison is found out."""

import asyncio
import json
from datetime import timedelta
from uuid import UUID

import pytest

from detent.model.state import State, Verb
from detent.spi.rescue import Rescue
from detent.spi.store import Change, Store
from detent.testing.conformance.builders import (
    HOUR,
    completion,
    new_id,
    new_job,
    node_identity,
    unique,
)
from detent.testing.conformance.late import accepted_late_writes
from detent.testing.conformance.steps import (
    claimed,
    claimed_ids,
    enqueued,
    held,
    info,
    joined,
    place,
    state_of,
)

MAX_CRASHES = 3
NO_LEASE = timedelta(0)
MOMENT = timedelta(milliseconds=20)
SHORT = timedelta(seconds=1)
"""Long enough for a slow machine to ask something before it is over."""
NOTHING = Rescue([], [])


async def crash(store: Store, node: UUID) -> None:
    """Let a node's lease run out, and rescue what it held."""
    await store.beat(node, NO_LEASE)
    await store.rescue(100, MAX_CRASHES)


async def passed(store: Store, time: timedelta) -> None:
    """Wait until that much time has passed by the store's clock."""
    asking = node_identity()
    began = await store.join(asking, HOUR)
    while (await store.beat(asking.incarnation, HOUR)).now <= began + time:  # noqa: ASYNC110
        await asyncio.sleep(0.005)
    await store.leave(asking.incarnation)


class RescueConformance:
    """Expired leases, lost claims, suspects, and the dead."""

    async def test_a_living_node_keeps_its_claims(self, store: Store) -> None:
        node, claim = await held(store)
        assert await store.rescue(100, MAX_CRASHES) == NOTHING
        assert await store.claims_of(node) == [(claim.id, claim.fence)]

    async def test_an_expired_node_dies_and_its_jobs_go_on(self, store: Store) -> None:
        node, claim = await held(store)
        await store.beat(node, NO_LEASE)
        rescue = await store.rescue(100, MAX_CRASHES)
        assert [dead.incarnation for dead in rescue.nodes] == [node]
        (job,) = rescue.jobs
        assert (job.id, job.node, job.state, job.crashes) == (claim.id, node, State.PENDING, 1)
        assert (job.task, job.queue) == (claim.task, "default")
        (dead,) = await store.nodes()
        assert (dead.state, dead.death) == ("dead", "its lease ran out")
        assert dead.dead_at is not None
        assert await store.rescue(100, MAX_CRASHES) == NOTHING, "once"

    async def test_every_late_write_of_the_dead_is_refused(self, store: Store) -> None:
        node, claim = await held(store)
        await crash(store, node)
        await enqueued(store)
        assert await accepted_late_writes(store, node, claim) == []
        assert await state_of(store, claim.id) is State.PENDING

    async def test_every_late_write_is_refused_while_the_next_owner_runs(
        self, store: Store
    ) -> None:
        node, claim = await held(store)
        await crash(store, node)
        owner = await joined(store)
        (valid,) = await claimed(store, owner)
        assert await accepted_late_writes(store, node, claim) == []
        assert await store.claims_of(owner) == [(claim.id, valid.fence)]
        # Nor by the fence of the one with the name of the other.
        for who, fence in ((owner, claim.fence), (node, valid.fence)):
            assert await store.finish_jobs(who, [completion(claim._replace(fence=fence))]) == []
        assert await store.finish_jobs(owner, [completion(valid)]) == [claim.id]

    async def test_a_rescued_job_returns_to_its_old_place(self, store: Store) -> None:
        first, second = await enqueued(store, new_job(), new_job())
        node = await joined(store)
        assert await claimed_ids(store, node, limit=1) == [first]
        due_at = (await info(store, first)).due_at
        await crash(store, node)
        found = await info(store, first)
        assert (found.state, found.due_at, found.attempt) == (State.PENDING, due_at, 1)
        assert await claimed_ids(store, await joined(store)) == [first, second]

    async def test_a_crash_is_an_attempt_that_is_not_charged(self, store: Store) -> None:
        node, claim = await held(store)
        await crash(store, node)
        (tried,) = await store.attempts(claim.id)
        assert (tried.kind, tried.number, tried.node) == ("crashed", 1, node)
        assert tried.error is not None
        error = json.loads(tried.error)
        assert error["type"] == "NodeDied"
        assert "host-1" in error["message"]
        assert (await info(store, claim.id)).crashes == 1

    async def test_claims_of_a_node_without_a_row_are_lost_too(self, store: Store) -> None:
        node, claim = await held(store)
        await crash(store, node)
        again = await joined(store)
        (claim,) = await claimed(store, again)
        assert await store.declare_dead([again], "seen to die") == 1
        rescue = await store.rescue(100, MAX_CRASHES)
        assert (rescue.nodes, [job.id for job in rescue.jobs]) == ([], [claim.id])

    async def test_a_rescue_is_paged(self, store: Store) -> None:
        ids = await enqueued(store, *(new_job() for _ in range(5)))
        node = await joined(store)
        await claimed(store, node)
        await store.beat(node, NO_LEASE)
        pages = [[job.id for job in (await store.rescue(2, MAX_CRASHES)).jobs] for _ in range(4)]
        assert [len(page) for page in pages] == [2, 2, 1, 0]
        assert sorted(job_id for page in pages for job_id in page) == sorted(ids)

    async def test_a_requested_cancel_is_carried_out(self, store: Store) -> None:
        node, claim = await held(store)
        await store.control_job(Verb.CANCEL, claim.id, Change(reason="enough"))
        await store.beat(node, NO_LEASE)
        (job,) = (await store.rescue(100, MAX_CRASHES)).jobs
        assert job.state is State.CANCELED
        found = await info(store, claim.id)
        assert (found.state, found.reason) == (State.CANCELED, "enough")

    async def test_the_end_of_a_keyed_job_releases_its_key(self, store: Store) -> None:
        placed = await place(store, new_job(), unique("user-1"))
        node = await joined(store)
        assert await claimed_ids(store, node) == [placed.id]
        await store.control_job(Verb.CANCEL, placed.id, Change())
        await crash(store, node)
        assert (await place(store, new_job(), unique("user-1"))).created

    async def test_a_replacement_wakes_when_its_predecessor_is_rescued(self, store: Store) -> None:
        old = await place(store, new_job(), unique("user-1"))
        node = await joined(store)
        assert await claimed_ids(store, node) == [old.id]
        new = await place(store, new_job(), unique("user-1", "replace"))
        assert await state_of(store, new.id) is State.WAITING
        await crash(store, node)
        assert await state_of(store, old.id) is State.CANCELED
        assert await claimed_ids(store, await joined(store)) == [new.id]

    async def test_what_a_node_stopped_itself_is_no_crash(self, store: Store) -> None:
        """Its claims were released before; this one was on its way."""
        node, claim = await held(store)
        assert await store.declare_dead([node], "it could not renew", fenced=True) == 1
        (job,) = (await store.rescue(100, MAX_CRASHES)).jobs
        assert (job.id, job.state, job.crashes) == (claim.id, State.PENDING, 0)
        assert await store.attempts(claim.id) == []
        assert (await info(store, claim.id)).crashes == 0
        assert await claimed_ids(store, await joined(store)) == [claim.id]

    # Leases run only while they could be renewed

    async def test_a_lease_that_no_node_saw_run_out_is_not_over(self, store: Store) -> None:
        """The store was away from all of them: that says nothing about their processes."""
        node, claim = await held(store)
        other = await joined(store)
        for each in (node, other):
            await store.beat(each, MOMENT)
        await passed(store, MOMENT)
        assert await store.rescue(100, MAX_CRASHES) == NOTHING
        assert await store.claims_of(node) == [(claim.id, claim.fence)]
        assert (await store.beat(node, HOUR)).alive, "the first heartbeat after the outage"

    async def test_after_a_gap_every_lease_has_its_whole_length_again(self, store: Store) -> None:
        node, claim = await held(store)
        witness = await joined(store)
        await store.beat(node, SHORT)
        await passed(store, SHORT)
        next_end = (await store.beat(witness, HOUR)).next_end
        assert next_end is not None
        assert next_end <= 0, "without a gap it is over"
        await store.beat(witness, NO_LEASE)  # whenever the next one comes, it comes late
        next_end = (await store.beat(witness, HOUR)).next_end
        assert next_end == pytest.approx(SHORT.total_seconds(), abs=0.1)
        assert await store.rescue(100, MAX_CRASHES) == NOTHING
        await passed(store, SHORT)
        rescue = await store.rescue(100, MAX_CRASHES)
        assert [dead.incarnation for dead in rescue.nodes] == [node]
        assert [job.id for job in rescue.jobs] == [claim.id]

    async def test_a_node_that_has_just_joined_is_no_witness(self, store: Store) -> None:
        node, claim = await held(store)
        await store.beat(node, SHORT)
        await passed(store, SHORT)
        newcomer = await joined(store)
        next_end = (await store.beat(newcomer, HOUR)).next_end
        assert next_end is not None
        assert 0 < next_end <= SHORT.total_seconds()
        assert await store.rescue(100, MAX_CRASHES) == NOTHING
        await passed(store, SHORT)
        assert [job.id for job in (await store.rescue(100, MAX_CRASHES)).jobs] == [claim.id]

    # The dead

    async def test_a_node_that_was_seen_to_die_is_dead_at_once(self, store: Store) -> None:
        node, claim = await held(store)
        assert await store.declare_dead([node, new_id()], "its process ended") == 1
        assert await store.declare_dead([node], "again") == 0
        (found,) = await store.nodes()
        assert (found.state, found.death) == ("dead", "its process ended")
        assert await store.finish_jobs(node, [completion(claim)]) == [claim.id], (
            "until somebody takes the claim, it is valid"
        )

    async def test_the_long_dead_are_forgotten(self, store: Store) -> None:
        node, _ = await held(store)
        living = await joined(store)
        await store.declare_dead([node], "gone")
        assert await store.forget_nodes(NO_LEASE, 10) == 0, "its claim is still there"
        await store.rescue(100, MAX_CRASHES)
        assert await store.forget_nodes(HOUR, 10) == 0, "not yet"
        assert await store.forget_nodes(NO_LEASE, 10) == 1
        assert [found.incarnation for found in await store.nodes()] == [living]

    async def test_a_beat_tells_when_the_next_lease_ends(self, store: Store) -> None:
        node = await joined(store)
        assert (await store.beat(node, HOUR)).next_end is None
        other = await joined(store, timedelta(seconds=40))
        next_end = (await store.beat(node, HOUR)).next_end
        assert next_end == pytest.approx(40, abs=5)
        await store.declare_dead([other], "gone")
        assert (await store.beat(node, HOUR)).next_end is None

    async def test_a_beat_keeps_the_load(self, store: Store) -> None:
        node = await joined(store)
        await store.beat(node, HOUR, {"running": 3, "cpu": 0.5})
        await store.beat(node, HOUR)
        (found,) = await store.nodes()
        assert dict(found.load) == {"running": 3, "cpu": 0.5}

    async def test_a_beat_tells_of_a_drain(self, store: Store) -> None:
        node = await joined(store)
        assert not (await store.beat(node, HOUR)).draining
        await store.drain(node)
        beat = await store.beat(node, HOUR)
        assert (beat.alive, beat.draining) == (True, True)

    async def test_many_rescuers_take_each_claim_once(self, store: Store) -> None:
        ids = await enqueued(store, *(new_job() for _ in range(60)))
        node = await joined(store)
        await claimed(store, node)
        await store.beat(node, NO_LEASE)
        rescues = await asyncio.gather(*(store.rescue(20, MAX_CRASHES) for _ in range(6)))
        taken = [job.id for rescue in rescues for job in rescue.jobs]
        assert len(taken) == len(set(taken))
        while jobs := (await store.rescue(20, MAX_CRASHES)).jobs:
            taken += [job.id for job in jobs]
        assert sorted(taken) == sorted(ids)
        assert sum(len(rescue.nodes) for rescue in rescues) == 1
