"""What limits that keep their order promise: what is put back is never overtaken behind its key."""

from datetime import timedelta
from uuid import UUID

import pytest

from detent.model.gates import Gate, gate_name
from detent.model.job import Claim, Priority
from detent.model.limits import Limit
from detent.model.rates import Algorithm, Rate
from detent.model.rescue import suspect_lane
from detent.model.state import State, Verb
from detent.spi.store import Change, Store
from detent.testing.conformance.builders import MINUTE, failed, new_job, parked, retried, settlement
from detent.testing.conformance.limits import asked, behind, finished, lane
from detent.testing.conformance.steps import claimed, enqueued, joined, succession

ADA = Gate(gate_name("task", "charge", "ada"))
BOB = Gate(gate_name("task", "charge", "bob"))
CHARGE = Limit("task:charge#", 1, ordered=True)
MAX_CRASHES = 3
NOW = Change(delay=timedelta(0))


def per_minute(count: int) -> Rate:
    return Rate(count, MINUTE, algorithm=Algorithm.WINDOW)


async def ids(store: Store, node: UUID, *lanes: str, least: int = 0) -> list[UUID]:
    """Claim from lanes, and return the ids."""
    return [claim.id for claim in (await asked(store, node, *lanes, least=least)).claims]


async def first_of(
    store: Store, count: int, priority: Priority = Priority.NORMAL
) -> tuple[UUID, Claim, list[UUID]]:
    """Enqueue jobs of one key and claim the first; return the node, the claim and the others."""
    await store.declare_limits([CHARGE])
    jobs = await enqueued(store, *(behind(ADA, priority=priority) for _ in range(count)))
    node = await joined(store)
    (claim,) = (await asked(store, node, lane(ADA))).claims
    assert claim.id == jobs[0]
    return node, claim, jobs[1:]


async def put_back(store: Store, node: UUID, claim: Claim, delay: float) -> None:
    assert await store.settle_jobs(node, [retried(claim, delay=delay)]) == [claim.id]


class OrderedConformance:
    """Retries, snoozes, parking, crashes and operators, behind a limit that keeps its order."""

    async def test_a_retry_with_a_delay_holds_back_the_later_ones(self, store: Store) -> None:
        node, claim, (second,) = await first_of(store, 2)
        await put_back(store, node, claim, 60.0)
        answer = await asked(store, node, lane(ADA))
        assert answer.claims == []
        (told,) = answer.lanes
        assert (told.taken, told.blocked_by, told.due_in) == (0, ADA.name, 0)
        assert told.retry_after == pytest.approx(60, abs=5)
        await store.control_job(Verb.RESCHEDULE, claim.id, NOW)
        (again,) = (await asked(store, node, lane(ADA))).claims
        assert (again.id, again.attempt) == (claim.id, 2)
        assert await ids(store, node, lane(ADA)) == [], "one at a time"
        await finished(store, node, [again])
        assert await ids(store, node, lane(ADA)) == [second]

    async def test_a_retry_without_a_delay_goes_first(self, store: Store) -> None:
        node, claim, (second,) = await first_of(store, 2)
        await put_back(store, node, claim, 0.0)
        (again,) = (await asked(store, node, lane(ADA))).claims
        assert again.id == claim.id
        assert await store.settle_jobs(node, [failed(again)]) == [claim.id]
        assert await ids(store, node, lane(ADA)) == [second]

    async def test_a_snooze_is_no_way_past(self, store: Store) -> None:
        node, claim, _ = await first_of(store, 3)
        await store.settle_jobs(node, [settlement(claim, State.PENDING, delay=60.0)])
        assert await ids(store, node, lane(ADA)) == []

    async def test_a_more_urgent_job_does_not_overtake_it(self, store: Store) -> None:
        node, claim, _ = await first_of(store, 2, priority=Priority.LOW)
        await put_back(store, node, claim, 0.0)
        (urgent,) = await enqueued(store, behind(ADA, priority=Priority.CRITICAL))
        answer = await asked(store, node, lane(ADA), least=Priority.CRITICAL)
        assert [each.id for each in answer.claims] == [claim.id]
        assert answer.lanes[0].due_in == 0, "others are still there"
        await finished(store, node, answer.claims)
        assert await ids(store, node, lane(ADA)) == [urgent]

    async def test_other_keys_go_on(self, store: Store) -> None:
        node, claim, _ = await first_of(store, 2)
        await put_back(store, node, claim, 60.0)
        (other,) = await enqueued(store, behind(BOB))
        assert await ids(store, node, lane(ADA), lane(BOB)) == [other]

    async def test_it_holds_its_key_in_other_lanes_too(self, store: Store) -> None:
        node, claim, _ = await first_of(store, 1)
        await put_back(store, node, claim, 60.0)
        job = new_job(needs=("gpu",))._replace(lane=lane(ADA, needs=("gpu",)))
        await enqueued(store, job)
        (told,) = (await asked(store, node, job.lane)).lanes
        assert (told.taken, told.blocked_by) == (0, ADA.name)
        await store.control_job(Verb.RESCHEDULE, claim.id, NOW)
        assert await ids(store, node, job.lane) == [], "it is the other one's turn"
        (again,) = (await asked(store, node, job.lane, lane(ADA))).claims
        assert again.id == claim.id
        await finished(store, node, [again])
        assert await ids(store, node, job.lane) == [job.id]

    async def test_its_cancel_lets_the_next_one_go(self, store: Store) -> None:
        node, claim, (second,) = await first_of(store, 2)
        await put_back(store, node, claim, 60.0)
        await store.control_job(Verb.CANCEL, claim.id, Change())
        assert await ids(store, node, lane(ADA)) == [second]

    async def test_while_it_is_paused_its_key_is(self, store: Store) -> None:
        node, claim, _ = await first_of(store, 2)
        await put_back(store, node, claim, 0.0)
        await store.control_job(Verb.PAUSE, claim.id, Change())
        answer = await asked(store, node, lane(ADA))
        assert answer.claims == []
        assert (answer.lanes[0].blocked_by, answer.lanes[0].retry_after) == (ADA.name, None)
        await store.control_job(Verb.RESUME, claim.id, Change())
        assert await ids(store, node, lane(ADA)) == [claim.id]

    async def test_one_that_no_node_knows_holds_its_key_until_one_does(self, store: Store) -> None:
        node, claim, _ = await first_of(store, 2)
        assert await store.settle_jobs(node, [parked(claim)]) == [claim.id]
        assert await ids(store, node, lane(ADA)) == []
        assert await store.adopt_jobs([claim.task], 10) == 1
        assert await ids(store, node, lane(ADA)) == [claim.id]

    async def test_a_release_keeps_the_place(self, store: Store) -> None:
        node, claim, _ = await first_of(store, 2)
        assert await store.release_claims(node, [(claim.id, claim.fence)]) == 1
        assert await ids(store, node, lane(ADA)) == [claim.id]

    async def test_a_held_job_that_is_released_still_holds(self, store: Store) -> None:
        node, claim, _ = await first_of(store, 2)
        await put_back(store, node, claim, 0.0)
        await enqueued(store, behind(ADA, priority=Priority.CRITICAL))
        (again,) = (await asked(store, node, lane(ADA))).claims
        assert await store.release_claims(node, [(again.id, again.fence)]) == 1
        assert await ids(store, node, lane(ADA)) == [claim.id]

    async def test_a_suspect_is_not_overtaken(self, store: Store) -> None:
        await store.declare_limits([CHARGE])
        first, second = await enqueued(store, behind(ADA), behind(ADA))
        for _ in range(MAX_CRASHES - 1):
            node = await joined(store)
            assert await ids(store, node, lane(ADA)) == [first]
            await store.declare_dead([node], "seen to die")
            await store.rescue(100, MAX_CRASHES)
        node = await joined(store)
        assert await ids(store, node, lane(ADA)) == []
        (suspect,) = (await asked(store, node, suspect_lane(lane(ADA)))).claims
        assert suspect.id == first
        await finished(store, node, [suspect])
        assert await ids(store, node, lane(ADA)) == [second]

    async def test_a_rate_lets_nothing_past_it(self, store: Store) -> None:
        rate = Gate("rate:charge")
        gates = (ADA, rate)
        await store.declare_limits([CHARGE, Limit(rate.name, rate=per_minute(1))])
        first, _ = await enqueued(store, behind(*gates), behind(*gates))
        node = await joined(store)
        (claim,) = (await asked(store, node, lane(*gates))).claims
        assert claim.id == first
        await put_back(store, node, claim, 0.0)
        (told,) = (await asked(store, node, lane(*gates))).lanes
        assert (told.taken, told.blocked_by) == (0, rate.name)
        assert told.retry_after is not None
        await store.set_limit(Limit(rate.name, rate=per_minute(100)))
        assert await ids(store, node, lane(*gates)) == [first]

    async def test_without_an_order_the_next_one_runs(self, store: Store) -> None:
        await store.declare_limits([Limit("task:charge#", 1)])
        first, second = await enqueued(store, behind(ADA), behind(ADA))
        node = await joined(store)
        (claim,) = (await asked(store, node, lane(ADA))).claims
        assert claim.id == first
        await put_back(store, node, claim, 60.0)
        assert await ids(store, node, lane(ADA)) == [second]

    async def test_the_order_is_part_of_the_limit(self, store: Store) -> None:
        await store.declare_limits([CHARGE])
        (info,) = await store.limits()
        assert (info.limit, info.declared) == (CHARGE, CHARGE)
        await store.set_limit(Limit(CHARGE.name, 5))
        assert await store.reset_limit(CHARGE.name) == CHARGE
        (info,) = await store.limits()
        assert (info.limit, info.edited) == (CHARGE, False)

    async def test_what_held_and_ended_is_forgotten(self, store: Store) -> None:
        node, claim, _ = await first_of(store, 1)
        await put_back(store, node, claim, 0.0)
        assert await store.forget_holds(10) == 0, "it is pending"
        (again,) = (await asked(store, node, lane(ADA))).claims
        assert await store.forget_holds(10) == 0, "it runs"
        await finished(store, node, [again])
        old, term = await succession(store)
        assert await store.forget_holds(10, old) == 0, "an old term writes nothing"
        assert await store.forget_holds(10, term) == 1
        assert await store.forget_holds(10) == 0

    async def test_jobs_without_gates_are_not_concerned(self, store: Store) -> None:
        node, claim, _ = await first_of(store, 1)
        await put_back(store, node, claim, 60.0)
        (plain,) = await enqueued(store)
        assert [each.id for each in await claimed(store, node)] == [plain]
