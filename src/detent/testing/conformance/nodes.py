"""What `NodeStore` promises: leases by the store's clock, and claims given back unharmed."""

from datetime import timedelta

from detent.model.state import State
from detent.spi.nodes import NodeIdentity
from detent.spi.store import Store
from detent.testing.conformance.builders import (
    HOUR,
    MINUTE,
    completion,
    new_id,
    new_job,
    node_identity,
    parked,
)
from detent.testing.conformance.steps import (
    claimed,
    claimed_ids,
    enqueued,
    held,
    held_many,
    info,
    joined,
    now_of,
    settled,
    state_of,
)


class NodeConformance:
    """Joining, beating, draining, leaving, and claims in a node's name."""

    async def test_a_node_that_joins_is_listed(self, store: Store) -> None:
        node = NodeIdentity(
            incarnation=new_id(),
            name="größe",
            host="host-1.example",
            pid=4711,
            version="1.2.3",
            queues={"mail": 20, "default": 50},
            capabilities=["gpu"],
            roles=["worker"],
            info={"python": "3.11"},
        )
        before = await now_of(store)
        now = await store.join(node, HOUR)
        assert before <= now <= await now_of(store)
        (found,) = await store.nodes()
        assert (found.incarnation, found.name, found.state) == (node.incarnation, "größe", "active")
        assert (found.host, found.pid, found.version) == ("host-1.example", 4711, "1.2.3")
        assert dict(found.queues) == {"mail": 20, "default": 50}
        after = await now_of(store)
        assert before <= found.started_at <= after
        assert before <= found.heartbeat_at <= after
        assert before + HOUR <= found.lease_until <= after + HOUR

    async def test_a_repeated_join_is_one_node(self, store: Store) -> None:
        node = node_identity()
        await store.join(node, timedelta(0))
        await store.join(node, HOUR)
        assert [found.incarnation for found in await store.nodes()] == [node.incarnation]
        (job_id,) = await enqueued(store)
        assert await claimed_ids(store, node.incarnation) == [job_id], "with the later lease"

    async def test_a_node_that_is_joining_is_seen_and_gets_nothing(self, store: Store) -> None:
        node = node_identity()
        (job_id,) = await enqueued(store)
        await store.join(node, HOUR, ready=False)
        assert [found.state for found in await store.nodes()] == ["joining"]
        assert (await store.beat(node.incarnation, HOUR)).alive
        assert await claimed_ids(store, node.incarnation) == []
        await store.join(node, HOUR)
        assert [found.state for found in await store.nodes()] == ["active"]
        assert await claimed_ids(store, node.incarnation) == [job_id]

    async def test_a_node_can_be_drained_while_it_is_joining(self, store: Store) -> None:
        node = node_identity()
        await store.join(node, HOUR, ready=False)
        await store.drain(node.incarnation)
        assert [found.state for found in await store.nodes()] == ["draining"]
        assert (await store.beat(node.incarnation, HOUR)).draining

    async def test_nodes_are_listed_the_oldest_first(self, store: Store) -> None:
        nodes = [await joined(store) for _ in range(4)]
        assert [found.incarnation for found in await store.nodes()] == nodes

    async def test_a_name_may_come_again_beside_its_old_incarnation(self, store: Store) -> None:
        old, new = node_identity("host-1"), node_identity("host-1")
        await store.join(old, HOUR)
        await enqueued(store)
        (claim,) = await claimed(store, old.incarnation)
        await store.join(new, HOUR)
        assert len(await store.nodes()) == 2
        assert await store.claims_of(new.incarnation) == [], "it inherits nothing"
        assert await store.finish_jobs(new.incarnation, [completion(claim)]) == []

    # Leases

    async def test_a_heartbeat_renews_the_lease(self, store: Store) -> None:
        node = await joined(store, timedelta(0))
        before = await now_of(store)
        await store.beat(node, MINUTE)
        after = await now_of(store)
        (found,) = await store.nodes()
        assert before <= found.heartbeat_at <= after
        assert before + MINUTE <= found.lease_until <= after + MINUTE
        (job_id,) = await enqueued(store)
        assert await claimed_ids(store, node) == [job_id]

    async def test_a_heartbeat_tells_the_time_and_the_number_of_nodes(self, store: Store) -> None:
        nodes = [await joined(store) for _ in range(3)]
        await joined(store, timedelta(seconds=-1))
        before = await now_of(store)
        beat = await store.beat(nodes[0], HOUR)
        assert beat.alive
        assert before <= beat.now <= await now_of(store)
        assert beat.nodes == 3, "one has run out of time"
        await store.drain(nodes[1])
        assert (await store.beat(nodes[0], HOUR)).nodes == 2

    async def test_a_heartbeat_creates_no_node(self, store: Store) -> None:
        stranger = new_id()
        assert not (await store.beat(stranger, HOUR)).alive
        assert await store.nodes() == []

    async def test_a_heartbeat_revives_no_node_that_left(self, store: Store) -> None:
        node = await joined(store)
        await store.leave(node)
        assert not (await store.beat(node, HOUR)).alive
        assert await store.nodes() == []

    async def test_a_draining_node_lives_until_it_leaves(self, store: Store) -> None:
        node = await joined(store)
        await store.drain(node)
        await store.drain(node)
        assert (await store.beat(node, HOUR)).alive
        (found,) = await store.nodes()
        assert found.state == "draining", "a heartbeat does not end it"

    async def test_a_node_that_is_recycled_hears_that_it_is_to_stay_away(
        self, store: Store
    ) -> None:
        node = await joined(store)
        await store.drain(node, returns=True)
        assert [found.state for found in await store.nodes()] == ["recycled"]
        beat = await store.beat(node, HOUR)
        assert (beat.alive, beat.nodes, beat.draining) == (True, 0, False)
        await store.drain(node)
        assert (await store.beat(node, HOUR)).draining
        await store.drain(node, returns=True)
        assert (await store.beat(node, HOUR)).draining, "what was said stands"

    async def test_draining_or_leaving_as_a_stranger_is_harmless(self, store: Store) -> None:
        await store.drain(new_id())
        await store.leave(new_id())
        assert await store.nodes() == []

    async def test_a_node_with_claims_stays_listed_when_it_leaves(self, store: Store) -> None:
        node, claim = await held(store)
        await store.drain(node)
        await store.leave(node)
        assert [found.incarnation for found in await store.nodes()] == [node]
        assert await store.claims_of(node) == [(claim.id, claim.fence)]
        await store.release_claims(node, [(claim.id, claim.fence)])
        await store.leave(node)
        assert await store.nodes() == []

    # Claims

    async def test_a_node_knows_its_claims(self, store: Store) -> None:
        node, claims = await held_many(store, 3)
        await held(store)
        expected = [(claim.id, claim.fence) for claim in claims]
        assert sorted(await store.claims_of(node)) == expected
        await store.finish_jobs(node, [completion(claims[1])])
        assert sorted(await store.claims_of(node)) == [expected[0], expected[2]]
        assert await store.claims_of(new_id()) == []

    async def test_released_claims_go_back_to_their_place(self, store: Store) -> None:
        now = await now_of(store)
        jobs = [new_job(due_at=now - minutes * MINUTE) for minutes in (3, 2, 1)]
        await store.enqueue_jobs(jobs)
        node, other = await joined(store), await joined(store)
        first, second = await claimed(store, node, limit=2)
        assert await store.release_claims(node, [(first.id, first.fence)]) == 1
        found = await info(store, first.id)
        assert (found.state, found.due_at) == (State.PENDING, jobs[0].due_at)
        assert (found.attempt, found.crashes) == (1, 0)
        assert await store.attempts(first.id) == []
        assert await claimed_ids(store, other) == [jobs[0].id, jobs[2].id]
        assert await store.claims_of(node) == [(second.id, second.fence)]

    async def test_only_valid_claims_are_released(self, store: Store) -> None:
        node, claim = await held(store)
        other = await joined(store)
        mine = (claim.id, claim.fence)
        assert await store.release_claims(other, [mine]) == 0
        assert await store.release_claims(node, []) == 0
        stale = [(claim.id, claim.fence + 1), (new_id(), claim.fence)]
        assert await store.release_claims(node, stale) == 0
        assert await state_of(store, claim.id) is State.RUNNING
        assert await store.release_claims(node, [*stale, mine]) == 1
        assert await store.release_claims(node, [mine]) == 0
        assert await store.finish_jobs(node, [completion(claim)]) == [], "it is given back"
        assert await state_of(store, claim.id) is State.PENDING

    async def test_a_draining_node_releases_its_claims(self, store: Store) -> None:
        node, claim = await held(store)
        await store.drain(node)
        assert await store.release_claims(node, [(claim.id, claim.fence)]) == 1

    # Tasks that nobody knew

    async def test_a_new_node_wakes_jobs_whose_task_nobody_knew(self, store: Store) -> None:
        now = await now_of(store)
        ids = await enqueued(store, *(new_job(due_at=now - minutes * MINUTE) for minutes in (2, 1)))
        node = await joined(store)
        (claim,) = await claimed(store, node, limit=1)
        await store.settle_jobs(node, [parked(claim, "unknown_task")])
        new = await joined(store)
        found = await info(store, claim.id)
        assert (found.state, found.due_at) == (State.PENDING, claim.due_at)
        assert await claimed_ids(store, new) == ids, "in its old place"

    async def test_a_new_node_wakes_nobody_else(self, store: Store) -> None:
        holding = await held(store)
        await settled(store, holding, parked(holding.claim, "signal"))
        await joined(store)
        found = await info(store, holding.claim.id)
        assert (found.state, found.reason) == (State.WAITING, "signal")

    async def test_a_node_adopts_jobs_of_the_tasks_that_it_knows(self, store: Store) -> None:
        now = await now_of(store)
        jobs = [
            new_job(task=task, due_at=now - HOUR + number * MINUTE)
            for number, task in enumerate(["send", "crunch", "send", "send", "other"])
        ]
        await store.enqueue_jobs(jobs)
        node = await joined(store)
        claims = await claimed(store, node)
        await store.settle_jobs(node, [parked(claim, "unknown_task") for claim in claims])
        assert await store.adopt_jobs([], 10) == 0
        assert await store.adopt_jobs(["unheard"], 10) == 0
        assert await store.adopt_jobs(["crunch", "send"], 3) == 3
        assert await store.adopt_jobs(["crunch", "send"], 3) == 1
        assert await store.adopt_jobs(["crunch", "send"], 3) == 0
        again = await claimed(store, node)
        assert [claim.id for claim in again] == [job.id for job in jobs[:4]], "in their old place"
        assert [claim.attempt for claim in again] == [1] * 4
        found = await info(store, jobs[4].id)
        assert (found.state, found.reason) == (State.WAITING, "unknown_task")

    async def test_a_node_adopts_nobody_who_waits_for_something_else(self, store: Store) -> None:
        holding = await held(store)
        await settled(store, holding, parked(holding.claim, "signal"))
        assert await store.adopt_jobs([holding.claim.task], 10) == 0
        assert await state_of(store, holding.claim.id) is State.WAITING
