"""What `RescueStore` promises about jobs that may have killed their node: which of them fails."""

import json
from dataclasses import replace
from uuid import UUID

from detent.model.job import Priority, lane_of
from detent.model.rescue import suspect_lane
from detent.model.state import State, Verb
from detent.spi.scans import LaneScan
from detent.spi.store import Change, Store
from detent.testing.conformance.builders import HOUR, claim_request, new_job, node_identity
from detent.testing.conformance.rescue import MAX_CRASHES, NO_LEASE, crash
from detent.testing.conformance.steps import claimed_ids, enqueued, info, joined, state_of


async def crashed_twice(store: Store, job_id: UUID) -> None:
    """Make a suspect of a job that is pending."""
    for _ in range(2):
        node = await joined(store)
        assert await claimed_ids(store, node) == [job_id]
        await crash(store, node)


async def claim_suspects(store: Store, node: UUID, limit: int = 1) -> list[UUID]:
    scan = LaneScan(suspect_lane("default"), "default", limit)
    claims = await store.claim_jobs(claim_request(node, scan, limit=limit))
    return [claim.id for claim in claims]


class SuspectConformance:
    """Crashes, who can have caused them, and what had not begun."""

    async def test_after_its_second_crash_a_job_waits_among_the_suspects(
        self, store: Store
    ) -> None:
        (job_id,) = await enqueued(store)
        await crashed_twice(store, job_id)
        found = await info(store, job_id)
        assert (found.state, found.crashes, found.queue) == (State.PENDING, 2, "default")
        assert found.needs == (), "the lane of suspects is nobody's capability"
        node = await joined(store)
        assert await claimed_ids(store, node) == []
        assert await claim_suspects(store, node) == [job_id]
        (queue,) = await store.queues()
        assert (queue.name, queue.running) == ("default", 1)

    async def test_suspects_of_a_queue_have_one_order_whatever_they_need(
        self, store: Store
    ) -> None:
        gpu = lane_of("default", ["gpu"])
        low, urgent, high = await enqueued(
            store,
            new_job(priority=Priority.LOW),
            new_job(priority=Priority.CRITICAL)._replace(lane=gpu),
            new_job(priority=Priority.HIGH),
        )
        for _ in range(2):
            node = await joined(store)
            both = [LaneScan("default", "default", 10), LaneScan(gpu, "default", 10)]
            assert len(await store.claim_jobs(claim_request(node, *both, limit=10))) == 3
            await crash(store, node)
        node = await joined(store)
        lanes = [suspect_lane("default"), suspect_lane(gpu)]
        scans = [LaneScan(lane, "default", 10) for lane in lanes]
        claims = await store.claim_jobs(claim_request(node, *scans, limit=10))
        assert [claim.id for claim in claims] == [urgent, high, low]

    async def test_the_third_crash_of_an_only_suspect_is_its_last(self, store: Store) -> None:
        (job_id,) = await enqueued(store)
        await crashed_twice(store, job_id)
        node = await joined(store)
        await claim_suspects(store, node)
        await crash(store, node)
        found = await info(store, job_id)
        assert found.state is State.FAILED
        assert found.error is not None
        assert "only suspect" in json.loads(found.error)["message"]
        assert [tried.kind for tried in await store.attempts(job_id)] == ["crashed"] * 3

    async def test_among_several_suspects_none_is_known_to_have_done_it(self, store: Store) -> None:
        ids = await enqueued(store, new_job(), new_job())
        for _ in range(2):
            node = await joined(store)
            assert await claimed_ids(store, node) == ids
            await crash(store, node)
        node = await joined(store)
        assert await claim_suspects(store, node, limit=2) == ids
        await crash(store, node)
        for job_id in ids:
            found = await info(store, job_id)
            assert (found.state, found.crashes) == (State.PENDING, 3)
            tried = await store.attempts(job_id)
            assert [(each.kind, each.alone) for each in tried] == [("crashed", False)] * 3

    async def test_those_that_crashed_together_are_not_alone_on_the_next_page(
        self, store: Store
    ) -> None:
        ids = await enqueued(store, *(new_job() for _ in range(3)))
        for _ in range(2):
            node = await joined(store)
            assert await claimed_ids(store, node) == ids
            await crash(store, node)
        node = await joined(store)
        assert await claim_suspects(store, node, limit=3) == ids
        await store.beat(node, NO_LEASE)
        for _ in ids:
            assert len((await store.rescue(1, MAX_CRASHES)).jobs) == 1
        for job_id in ids:
            assert [each.alone for each in await store.attempts(job_id)] == [False] * 3

    async def test_an_only_suspect_fails_when_it_was_alone_often_enough(self, store: Store) -> None:
        ids = await enqueued(store, new_job(), new_job())
        for _ in range(2):
            node = await joined(store)
            assert await claimed_ids(store, node) == ids
            await crash(store, node)
        (innocent, guilty) = ids
        node = await joined(store)
        assert await claim_suspects(store, node) == [innocent]
        for _ in range(3):
            assert await state_of(store, guilty) is State.PENDING
            node = await joined(store)
            assert await claim_suspects(store, node) == [guilty]
            await crash(store, node)
        assert await state_of(store, guilty) is State.FAILED
        tried = await store.attempts(guilty)
        assert [each.alone for each in tried] == [False, False, True, True, True]
        assert (await info(store, innocent)).crashes == 2

    # What had not begun

    async def test_what_waited_behind_the_slots_is_charged_nothing_once(self, store: Store) -> None:
        ids = await enqueued(store, *(new_job() for _ in range(3)))
        for crashes in ((1, 0, 0), (2, 1, 1)):
            node = replace(node_identity(), queues={"default": 1})
            await store.join(node, HOUR)
            assert await claimed_ids(store, node.incarnation) == ids
            await crash(store, node.incarnation)
            assert tuple([(await info(store, job_id)).crashes for job_id in ids]) == crashes
        kinds = [[each.kind for each in await store.attempts(job_id)] for job_id in ids]
        assert kinds == [["crashed"] * 2, *[["unstarted", "crashed"]] * 2]

    async def test_a_queue_that_was_scaled_has_as_many_slots_as_it_was_given(
        self, store: Store
    ) -> None:
        ids = await enqueued(store, new_job(), new_job())
        await store.scale_queue("default", 2)
        node = replace(node_identity(), queues={"default": 1})
        await store.join(node, HOUR)
        assert await claimed_ids(store, node.incarnation) == ids
        await crash(store, node.incarnation)
        assert [(await info(store, job_id)).crashes for job_id in ids] == [1, 1]

    async def test_a_neighbour_that_is_no_suspect_is_not_failed(self, store: Store) -> None:
        (job_id,) = await enqueued(store)
        await crashed_twice(store, job_id)
        (neighbour,) = await enqueued(store)
        node = await joined(store)
        await claim_suspects(store, node)
        assert await claimed_ids(store, node) == [neighbour]
        await crash(store, node)
        assert await state_of(store, job_id) is State.FAILED
        found = await info(store, neighbour)
        assert (found.state, found.crashes) == (State.PENDING, 1)

    async def test_a_failed_suspect_that_is_retried_begins_anew(self, store: Store) -> None:
        (job_id,) = await enqueued(store)
        await crashed_twice(store, job_id)
        node = await joined(store)
        await claim_suspects(store, node)
        await crash(store, node)
        await store.control_job(Verb.RETRY, job_id, Change())
        assert (await info(store, job_id)).crashes == 0
        assert await claimed_ids(store, await joined(store)) == [job_id]
