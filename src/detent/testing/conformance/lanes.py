"""What `ClaimStore` promises of the lanes of one queue: one order, and one room for all of them."""

from collections import Counter
from datetime import timedelta
from uuid import UUID

from hypothesis import given
from hypothesis import strategies as st

from detent.model.job import Priority, lane_of, queue_of
from detent.spi.store import Store
from detent.testing.conformance.builders import claim_request, lane_scan, new_id, new_job
from detent.testing.conformance.claim import BOOST, ENTRIES, backlog, in_order
from detent.testing.conformance.examples import FEW
from detent.testing.conformance.steps import enqueued, joined, now_of


class LaneConformance:
    """Queues whose jobs need capabilities."""

    @FEW
    @given(
        lanes=st.lists(ENTRIES, min_size=2, max_size=4),
        boost_interval=st.sampled_from([timedelta(0), BOOST]),
        rooms=st.lists(st.integers(1, 12), min_size=1, max_size=4),
    )
    async def test_all_lanes_of_a_queue_have_one_order_and_one_room(
        self,
        store: Store,
        lanes: list[list[tuple[Priority, int]]],
        boost_interval: timedelta,
        rooms: list[int],
    ) -> None:
        queue, now = str(new_id()), await now_of(store)
        needs = ["gpu", "gpu ml", "ml", ""]
        jobs = [
            job._replace(lane=lane_of(queue, needs[number].split()))
            for number, entries in enumerate(lanes)
            for job in backlog(entries, now, queue)
        ]
        await store.enqueue_jobs(jobs)
        node, taken = await joined(store), list[UUID]()
        for room in [*rooms, 200]:
            scans = [lane_scan(queue, needs=each.split(), room=room) for each in needs]
            request = claim_request(node, *scans, limit=200, boost_interval=boost_interval)
            claims = await store.claim_jobs(request)
            assert len(claims) == min(room, len(jobs) - len(taken))
            taken += [claim.id for claim in claims]
        assert taken == in_order(jobs, now, boost_interval)

    async def test_each_queue_has_its_own_room(self, store: Store) -> None:
        for queue in ("mail", "other"):
            await enqueued(store, *(new_job(queue, needs=n) for n in ((), ["gpu"]) for _ in "123"))
        scans = [
            lane_scan(queue, needs=needs, room=room)
            for queue, room in (("mail", 2), ("none", 9), ("other", 4))
            for needs in ((), ["gpu"])
        ]
        node = await joined(store)
        claims = await store.claim_jobs(claim_request(node, *scans, limit=5))
        assert Counter(queue_of(claim.lane) for claim in claims) == {"mail": 2, "other": 3}
        claims = await store.claim_jobs(claim_request(node, *scans))
        assert Counter(queue_of(claim.lane) for claim in claims) == {"mail": 2, "other": 3}

    async def test_the_lanes_that_need_something_are_found(self, store: Store) -> None:
        assert await store.needy_lanes(["mail", "other"]) == []
        jobs = [
            new_job("mail"),
            new_job("mail", needs=["gpu"]),
            new_job("mail", needs=["gpu"], delay=3600),
            new_job("mail", needs=["gpu", "ml"]),
            new_job("mail", needs=["Ärger"]),
            new_job("mail2", needs=["gpu"]),
            new_job("other"),
        ]
        lanes = ["mail+gpu~task:send#1", "mail+gpu~task:send#2", "mail+x~task:send", "mail+gpu+!"]
        jobs += [new_job("mail")._replace(lane=lane) for lane in lanes]
        await store.enqueue_jobs(jobs)
        found = ["mail+gpu", "mail+gpu+!", "mail+gpu+ml", "mail+Ärger"]
        assert await store.needy_lanes(["other", "mail"]) == found
        assert await store.needy_lanes(["other"]) == []
        assert await store.needy_lanes([]) == []

    async def test_the_next_job_of_a_queue_is_the_first_of_all_its_lanes(
        self, store: Store
    ) -> None:
        await enqueued(store, new_job(delay=7200), new_job(needs=["gpu"], delay=3600))
        waits = await store.next_due([lane_scan(), lane_scan(needs=["gpu"])])
        assert 3500 < waits["default"] <= 3600
