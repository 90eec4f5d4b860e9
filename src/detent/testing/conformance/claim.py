"""What `ClaimStore` promises: due jobs in the exact order, each to one living node."""

import asyncio
from collections import Counter
from datetime import datetime, timedelta
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from detent.model.job import NewJob, Position, Priority
from detent.model.state import State
from detent.spi.scans import Floor
from detent.spi.store import Store
from detent.testing.conformance.builders import (
    HOUR,
    MINUTE,
    NO_FLOORS,
    SECOND,
    claim_request,
    lane_scan,
    new_id,
    new_job,
)
from detent.testing.conformance.examples import FEW
from detent.testing.conformance.steps import (
    claimed,
    claimed_ids,
    enqueued,
    held,
    info,
    joined,
    now_of,
    states_of,
)

BOOST = timedelta(minutes=10)
LAST_ID = UUID(int=(1 << 128) - 1)

#: A priority and how many minutes ago a job was due. The half minute that `backlog` adds keeps
#: every job away from the moment of its next boost, so the clock may move during a test.
ENTRIES = st.lists(
    st.tuples(st.sampled_from(Priority), st.integers(0, 45)), min_size=1, max_size=30
)


def in_order(jobs: list[NewJob], now: datetime, boost_interval: timedelta) -> list[UUID]:
    """Sort by the sentence in the contract, one job at a time: the oracle."""

    def rank(job: NewJob) -> tuple[float, datetime, UUID]:
        assert job.due_at is not None
        waited = now - job.due_at
        aged = job.priority + (waited // boost_interval if boost_interval else 0)
        return -aged, job.due_at, job.id

    return [job.id for job in sorted(jobs, key=rank)]


def backlog(entries: list[tuple[Priority, int]], now: datetime, queue: str) -> list[NewJob]:
    """Return jobs of these priorities that were due so many minutes ago."""
    return [
        new_job(queue, priority=priority, due_at=now - minutes * MINUTE - 30 * SECOND)
        for priority, minutes in entries
    ]


class ClaimConformance:
    """Claims, floors, lanes and looks."""

    @FEW
    @given(
        entries=ENTRIES,
        boost_interval=st.sampled_from([timedelta(0), BOOST]),
        pages=st.lists(st.integers(1, 12), max_size=4),
    )
    async def test_the_order_of_a_lane_is_exact(
        self,
        store: Store,
        entries: list[tuple[Priority, int]],
        boost_interval: timedelta,
        pages: list[int],
    ) -> None:
        queue = str(new_id())  # one store for all examples
        now = await now_of(store)
        jobs = backlog(entries, now, queue)
        await store.enqueue_jobs(jobs)
        node = await joined(store)
        taken: list[UUID] = []
        for limit in [*pages, 100]:
            taken += await claimed_ids(
                store, node, queue, limit=limit, boost_interval=boost_interval
            )
        assert taken == in_order(jobs, now, boost_interval)

    async def test_waiting_beats_priority_after_a_boost(self, store: Store) -> None:
        now = await now_of(store)
        low, high, older = await enqueued(
            store,
            new_job(priority=Priority.LOW, due_at=now - 2 * BOOST - MINUTE),
            new_job(priority=Priority.HIGH, due_at=now - MINUTE),
            new_job(priority=Priority.LOWEST, due_at=now - 5 * BOOST - MINUTE),
        )
        node = await joined(store)
        # Aged to 1 + 2, 3 and 0 + 5: the first two are equal, and the older of them goes first.
        assert await claimed_ids(store, node, boost_interval=BOOST) == [older, low, high]

    async def test_without_a_boost_interval_priority_decides(self, store: Store) -> None:
        now = await now_of(store)
        low, high = await enqueued(
            store,
            new_job(priority=Priority.LOW, due_at=now - timedelta(days=400)),
            new_job(priority=Priority.HIGH, due_at=now),
        )
        assert await claimed_ids(store, await joined(store)) == [high, low]

    async def test_at_one_moment_the_id_decides(self, store: Store) -> None:
        now = await now_of(store)
        jobs = [new_job(due_at=now - MINUTE) for _ in range(5)]
        await store.enqueue_jobs(jobs[::-1])
        assert await claimed_ids(store, await joined(store)) == [job.id for job in jobs]

    async def test_a_claim_brings_all_that_a_start_needs(self, store: Store) -> None:
        now = await now_of(store)
        job = new_job("mail", needs=["gpu"], priority=4, due_at=now - MINUTE, tags=["a", "b"])
        job = job._replace(codec="other", options=b"o", params=b"p")
        plain = new_job("mail", needs=["gpu"], priority=0)
        await store.enqueue_jobs([job, plain])
        scan = lane_scan("mail", needs=["gpu"])
        claim, other = await store.claim_jobs(claim_request(await joined(store), scan))
        assert (claim.id, claim.task, claim.lane) == (job.id, job.task, "mail+gpu")
        assert (claim.priority, claim.due_at) == (4, job.due_at)
        assert (claim.attempt, claim.crashes, claim.hooks) == (1, 0, 0)
        assert (claim.args, claim.codec) == (job.args, "other")
        assert (claim.options, claim.params, claim.tags) == (b"o", b"p", ["a", "b"])
        assert (other.options, other.params, other.tags) == (None, None, None)

    async def test_a_claimed_job_runs_in_the_name_of_its_node(self, store: Store) -> None:
        before = await now_of(store)
        node, claim = await held(store)
        found = await info(store, claim.id)
        assert found.state is State.RUNNING
        assert (found.node, found.fence) == (node, claim.fence)
        assert found.started_at is not None
        assert before <= found.started_at <= await now_of(store)
        assert found.generation == claim.generation

    async def test_a_future_job_stays(self, store: Store) -> None:
        await enqueued(store, new_job(delay=3600))
        assert await claimed(store, await joined(store)) == []

    # Scans

    async def test_lanes_are_taken_in_order_with_their_rooms(self, store: Store) -> None:
        first = await enqueued(store, *(new_job("first", priority=0) for _ in range(5)))
        second = await enqueued(store, *(new_job("second", priority=4) for _ in range(5)))
        third = await enqueued(store, new_job("third"))
        scans = [lane_scan("first", room=2), lane_scan("second"), lane_scan("third")]
        node = await joined(store)
        claims = await store.claim_jobs(claim_request(node, *scans, limit=5))
        assert {claim.id for claim in claims} == {*first[:2], *second[:3]}
        claims = await store.claim_jobs(claim_request(node, *scans))
        assert {claim.id for claim in claims} == {*first[2:4], *second[3:], *third}

    async def test_within_each_lane_the_best_come_first(self, store: Store) -> None:
        ids = await enqueued(store, *(new_job(queue) for _ in range(4) for queue in "ab"))
        claims = await store.claim_jobs(
            claim_request(await joined(store), lane_scan("a"), lane_scan("b"))
        )
        for start, lane in enumerate("ab"):
            assert [claim.id for claim in claims if claim.lane == lane] == ids[start::2]

    @pytest.mark.parametrize("room, limit", [(0, 10), (10, 0)])
    async def test_no_room_means_no_jobs(self, store: Store, room: int, limit: int) -> None:
        await enqueued(store)
        request = claim_request(await joined(store), lane_scan(room=room), limit=limit)
        assert await store.claim_jobs(request) == []

    async def test_a_job_is_only_found_in_its_own_lane(self, store: Store) -> None:
        plain, gpu, both = await enqueued(
            store,
            new_job("mail"),
            new_job("mail", needs=["gpu"]),
            new_job("mail", needs=["gpu", "disk"]),
        )
        node = await joined(store)
        for needs, expected in ((["disk", "gpu"], both), (["gpu"], gpu), ([], plain)):
            claims = await store.claim_jobs(claim_request(node, lane_scan("mail", needs=needs)))
            assert [claim.id for claim in claims] == [expected]

    async def test_jobs_of_a_paused_queue_stay(self, store: Store) -> None:
        plain, gpu, other = await enqueued(
            store, new_job("mail"), new_job("mail", needs=["gpu"]), new_job("other")
        )
        node = await joined(store)
        scans = lane_scan("mail"), lane_scan("mail", needs=["gpu"]), lane_scan("other")
        await store.pause_queue("mail")
        await store.pause_queue("mail")
        claims = await store.claim_jobs(claim_request(node, *scans))
        assert [claim.id for claim in claims] == [other]
        await store.resume_queue("mail")
        claims = await store.claim_jobs(claim_request(node, *scans))
        assert {claim.id for claim in claims} == {plain, gpu}

    # Floors

    async def test_a_floor_hides_what_stands_before_it(self, store: Store) -> None:
        now = await now_of(store)
        times = [now - HOUR, now - 2 * MINUTE, now - 2 * MINUTE, now - MINUTE]
        jobs = [new_job(due_at=time) for time in times]
        await store.enqueue_jobs(jobs)
        floors = [Floor(now - 2 * MINUTE, jobs[2].id)] * len(Priority)
        node = await joined(store)
        claims = await store.claim_jobs(claim_request(node, lane_scan(floors=floors)))
        assert [claim.id for claim in claims] == [jobs[2].id, jobs[3].id]
        assert await claimed_ids(store, node) == [jobs[0].id, jobs[1].id], "without floors"

    async def test_every_priority_has_its_own_floor(self, store: Store) -> None:
        now = await now_of(store)
        ids = await enqueued(
            store, *(new_job(priority=each, due_at=now - HOUR) for each in Priority)
        )
        node = await joined(store)
        for each in Priority:
            floors = [*NO_FLOORS]
            floors[each] = Floor(now - MINUTE, new_id())
            claims = await store.claim_jobs(claim_request(node, lane_scan(floors=floors), limit=10))
            expected = [job_id for job_id in ids if job_id != ids[each]]
            assert [claim.id for claim in claims] == expected[::-1]
            released = [(claim.id, claim.fence) for claim in claims]
            assert await store.release_claims(node, released) == len(claims)

    async def test_every_lane_has_its_own_floors(self, store: Store) -> None:
        now = await now_of(store)
        await enqueued(store, new_job("first", due_at=now - HOUR))
        (second,) = await enqueued(store, new_job("second", due_at=now - HOUR))
        floors = [Floor(now - MINUTE, new_id())] * len(Priority)
        scans = lane_scan("first", floors=floors), lane_scan("second")
        claims = await store.claim_jobs(claim_request(await joined(store), *scans))
        assert [claim.id for claim in claims] == [second]

    async def test_no_floor_hides_what_has_just_become_due(self, store: Store) -> None:
        node = await joined(store)
        floors = [Floor(await now_of(store) + HOUR, LAST_ID)] * len(Priority)
        for _ in range(10):
            (job_id,) = await enqueued(store)
            claims = await store.claim_jobs(claim_request(node, lane_scan(floors=floors)))
            if await now_of(store) - (await info(store, job_id)).due_at < SECOND:
                assert [claim.id for claim in claims] == [job_id]
                return
        pytest.skip("this machine takes more than a second for an enqueue and a claim")

    async def test_a_floor_hides_what_has_been_due_for_more_than_a_second(
        self, store: Store
    ) -> None:
        now = await now_of(store)
        await enqueued(store, new_job(due_at=now - timedelta(seconds=1.5)))
        floors = [Floor(now + HOUR, LAST_ID)] * len(Priority)
        request = claim_request(await joined(store), lane_scan(floors=floors))
        assert await store.claim_jobs(request) == []

    # Payloads

    async def test_a_large_payload_is_loaded_later(self, store: Store) -> None:
        small, large = await enqueued(store, new_job(args=b"x" * 10), new_job(args=b"y" * 11))
        claims = await claimed(store, await joined(store), inline_args=10)
        assert {claim.id: claim.args for claim in claims} == {small: b"x" * 10, large: None}
        loaded = await store.load_args([claim for claim in claims if claim.args is None])
        assert dict(loaded) == {large: b"y" * 11}

    async def test_no_payload_at_all_fits_everywhere(self, store: Store) -> None:
        await enqueued(store, new_job(args=b""))
        (claim,) = await claimed(store, await joined(store), inline_args=0)
        assert claim.args == b""
        assert dict(await store.load_args([])) == {}

    # Who may claim

    @pytest.mark.parametrize("seconds", [0, -1])
    async def test_a_node_whose_lease_ran_out_gets_nothing(
        self, store: Store, seconds: int
    ) -> None:
        (job_id,) = await enqueued(store)
        assert await claimed(store, await joined(store, timedelta(seconds=seconds))) == []
        assert await claimed_ids(store, await joined(store)) == [job_id]

    async def test_an_unknown_node_gets_nothing(self, store: Store) -> None:
        await enqueued(store)
        assert await claimed(store, new_id()) == []

    @pytest.mark.parametrize("returns", [False, True])
    async def test_a_draining_node_gets_nothing(self, store: Store, returns: bool) -> None:
        await enqueued(store)
        node = await joined(store)
        await store.drain(node, returns=returns)
        assert await claimed(store, node) == []

    async def test_a_node_that_left_gets_nothing(self, store: Store) -> None:
        await enqueued(store)
        node = await joined(store)
        await store.leave(node)
        assert await claimed(store, node) == []

    # Once

    async def test_no_job_is_given_twice(self, store: Store) -> None:
        ids = await enqueued(store, *(new_job(priority=n % 5) for n in range(100)))
        nodes = [await joined(store) for _ in range(5)]
        given: list[UUID] = []
        for _ in range(100):  # a short answer does not mean that nothing is due
            answers = await asyncio.gather(*(claimed_ids(store, n, limit=7) for n in nodes))
            given += [job_id for answer in answers for job_id in answer]
            if len(given) >= len(ids):
                break
        assert Counter(given) == Counter(ids)
        assert await states_of(store, ids) == [State.RUNNING] * len(ids)

    async def test_fences_grow_from_claim_to_claim(self, store: Store) -> None:
        await enqueued(store, *(new_job() for _ in range(6)))
        one, two = await joined(store), await joined(store)
        fences = [
            {claim.fence for claim in await claimed(store, node, limit=2)}
            for node in (one, two, one)
        ]
        assert max(fences[0]) < min(fences[1])
        assert max(fences[1]) < min(fences[2])

    async def test_a_job_that_is_claimed_again_has_a_higher_fence(self, store: Store) -> None:
        node, claim = await held(store)
        await store.release_claims(node, [(claim.id, claim.fence)])
        (again,) = await claimed(store, node)
        assert again.id == claim.id
        assert again.fence > claim.fence

    # Looks

    async def test_a_look_finds_the_head_of_every_lane_and_priority(self, store: Store) -> None:
        now = await now_of(store)
        jobs = [
            new_job(queue, priority=priority, due_at=now - minutes * MINUTE)
            for queue in ("mail", "other")
            for priority in (0, 3)
            for minutes in (5, 6, 6)
        ]
        await store.enqueue_jobs([*jobs, new_job("mail", priority=4, due_at=now + HOUR)])
        await store.enqueue_jobs([new_job("mail", needs=["gpu"])])
        # The first of each three is due later than the other two, of which the lower id is first.
        mail = [Position("mail", job.priority, now - 6 * MINUTE, job.id) for job in jobs[1:6:3]]
        other = [Position("other", job.priority, now - 6 * MINUTE, job.id) for job in jobs[7::3]]
        assert sorted(await store.look(["mail"])) == mail
        assert sorted(await store.look(["other", "mail", "none"])) == mail + other
        assert await store.look([]) == []

    async def test_a_look_takes_nothing_and_sees_nothing_that_was_taken(self, store: Store) -> None:
        (job_id,) = await enqueued(store)
        assert [position.id for position in await store.look(["default"])] == [job_id]
        assert await claimed_ids(store, await joined(store)) == [job_id]
        assert await store.look(["default"]) == []

    async def test_a_look_leaves_paused_queues_out(self, store: Store) -> None:
        _, _, other = await enqueued(
            store, new_job("mail"), new_job("mail", needs=["gpu"]), new_job("other")
        )
        await store.pause_queue("mail")
        found = await store.look(["mail", "mail+gpu", "other"])
        assert [position.id for position in found] == [other]
        await store.resume_queue("mail")
        assert len(await store.look(["mail", "mail+gpu", "other"])) == 3

    # The next job

    async def test_the_next_job_is_due_at_once_or_after_a_while_or_never(
        self, store: Store
    ) -> None:
        assert await store.next_due([lane_scan()]) == {}
        assert await store.next_due([]) == {}
        await enqueued(store, new_job(delay=7200), new_job(delay=3600), new_job("mail"))
        waits = await store.next_due([lane_scan()])
        assert 3500 < waits["default"] <= 3600
        waits = await store.next_due([lane_scan(), lane_scan("mail"), lane_scan("none")])
        assert sorted(waits) == ["default", "mail"]
        assert 3500 < waits["default"] <= 3600
        assert waits["mail"] == 0
        assert await store.next_due([lane_scan("mail", needs=["gpu"])]) == {}

    async def test_the_next_job_is_one_that_a_claim_may_take(self, store: Store) -> None:
        now = await now_of(store)
        await enqueued(store, new_job(due_at=now - HOUR), new_job("mail"))
        floors = [Floor(now - MINUTE, new_id())] * len(Priority)
        assert await store.next_due([lane_scan(floors=floors)]) == {}, "it is below the floor"
        assert await store.next_due([lane_scan()]) == {"default": 0}
        await enqueued(store, new_job(delay=3600))
        waits = await store.next_due([lane_scan(floors=floors)])
        assert 3500 < waits["default"] <= 3600
        await store.pause_queue("mail")
        assert await store.next_due([lane_scan("mail")]) == {}
        assert await claimed_ids(store, await joined(store), "mail") == []
