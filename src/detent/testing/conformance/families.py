"""What claims from a family promise: the same as claims from each of its lanes, in one order."""

import asyncio
from collections import Counter
from collections.abc import Sequence
from datetime import timedelta
from uuid import UUID

import pytest

from detent.model.gates import Gate, gate_name
from detent.model.job import Claim, Hook, Priority
from detent.model.limits import Limit
from detent.model.rates import Rate
from detent.model.rescue import suspect_lane
from detent.model.state import Verb
from detent.spi.limits import FamilyAnswer, FamilyRequest, Refusal
from detent.spi.scans import Floor
from detent.spi.store import Change, Store
from detent.testing.conformance.builders import HOUR, new_job, retried
from detent.testing.conformance.limits import BOOST, QUEUE, asked, behind, finished, lane, running
from detent.testing.conformance.steps import claimed, enqueued, joined

CHARGE = "default~task:charge"
LIMIT = "task:charge#"
NOTHING: Sequence[Floor | None] = (None,) * 5


def gate(key: str) -> Gate:
    return Gate(gate_name("task", "charge", key))


async def whole(  # noqa: PLR0913  each is what some test is about
    store: Store,
    node: UUID,
    *,
    room: int = 100,
    walk: int = 1_000,
    least: int = 0,
    floors: Sequence[Floor | None] = NOTHING,
    without: Sequence[str] = (),
    family: str = CHARGE,
    boost: timedelta = BOOST,
) -> FamilyAnswer:
    """Claim from a family."""
    return await store.claim_family(
        FamilyRequest(node, family, QUEUE, room, walk, least, floors, without, boost, 8_192)
    )


async def offered(store: Store, concurrency: int = 1, *, ordered: bool = False) -> UUID:
    """Declare a limit for each key, and join; skip the test if the store claims lane by lane."""
    await store.declare_limits([Limit(LIMIT, concurrency, ordered=ordered)])
    node = await joined(store)
    if (await whole(store, node)).refusal is Refusal.NOT_OFFERED:
        pytest.skip("this store claims lane by lane")
    return node


def ids(claims: Sequence[Claim]) -> list[UUID]:
    return [claim.id for claim in claims]


class FamilyConformance:
    """Limits by key that are claimed from as a whole."""

    async def test_a_family_gives_of_each_key_what_its_limit_lets_in(self, store: Store) -> None:
        node = await offered(store, 2)
        keys = [*"aaab", *"acbb"]
        jobs = await enqueued(store, *(behind(gate(key)) for key in keys))
        answer = await whole(store, node)
        assert ids(answer.claims) == [jobs[0], jobs[1], jobs[3], jobs[5], jobs[6]]
        assert all(claim.hooks & Hook.LIMIT for claim in answer.claims)
        assert len({claim.fence for claim in answer.claims}) == 1
        assert (answer.refusal, answer.blocked, answer.is_all) == (None, 3, True)
        assert (answer.head, answer.due_in, answer.keys) == (None, None, 3)
        assert await running(store, LIMIT) == 5
        again = await whole(store, node)
        assert (again.claims, again.blocked) == ([], 3)
        await finished(store, node, answer.claims[:1])
        assert ids((await whole(store, node)).claims) == [jobs[2]]

    async def test_both_kinds_of_claims_count_the_same(self, store: Store) -> None:
        node = await offered(store, 2)
        await enqueued(store, *(behind(gate("a")) for _ in range(6)))
        one = await asked(store, node, lane(gate("a")), room=1)
        two = await whole(store, node)
        assert (len(one.claims), len(two.claims)) == (1, 1)
        (told,) = (await asked(store, node, lane(gate("a")))).lanes
        assert (told.taken, told.blocked_by) == (0, gate("a").name)
        await finished(store, node, two.claims)
        assert len((await asked(store, node, lane(gate("a")))).claims) == 1
        await finished(store, node, one.claims)
        assert len((await whole(store, node)).claims) == 1

    async def test_no_key_is_exceeded_by_claims_side_by_side(self, store: Store) -> None:
        node = await offered(store, 2)
        keys = [str(number) for number in range(4)]
        for _ in range(3):
            await enqueued(store, *(behind(gate(key)) for key in keys for _ in range(4)))
            lanes = [lane(gate(key)) for key in keys]
            families, others = await asyncio.gather(
                asyncio.gather(*(whole(store, node, room=5) for _ in range(4))),
                asyncio.gather(*(asked(store, node, *lanes, room=2) for _ in range(4))),
            )
            claims = [claim for answer in families for claim in answer.claims]
            claims += [claim for answer in others for claim in answer.claims]
            assert len(set(ids(claims))) == len(claims)
            assert max(Counter(claim.lane for claim in claims).values()) <= 2
            await finished(store, node, claims)

    async def test_a_family_has_one_order_by_aged_priority(self, store: Store) -> None:
        node = await offered(store)
        low = behind(gate("low"), priority=Priority.LOW, delay=-3_600.0)
        normal = behind(gate("normal"), priority=Priority.NORMAL, delay=-60.0)
        high = behind(gate("high"), priority=Priority.HIGH, delay=-5.0)
        await enqueued(store, normal, high, low)
        answer = await whole(store, node, room=0)
        assert answer.claims == []
        assert answer.head is not None
        assert answer.head.priority == Priority.LOW
        assert answer.head.waited == pytest.approx(3_600, abs=60)
        assert ids((await whole(store, node, room=2)).claims) == [low.id, high.id]

    async def test_what_is_not_urgent_enough_is_left_and_told(self, store: Store) -> None:
        node = await offered(store)
        high = behind(gate("a"), priority=Priority.HIGH)
        low = behind(gate("b"), priority=Priority.LOW)
        await enqueued(store, low, high)
        answer = await whole(store, node, least=Priority.HIGH, boost=timedelta(0))
        assert ids(answer.claims) == [high.id]
        assert answer.head is not None
        assert answer.head.priority == Priority.LOW

    async def test_each_key_keeps_its_own_order(self, store: Store) -> None:
        node = await offered(store, ordered=True)
        jobs = await enqueued(store, *(behind(gate(key)) for key in "abab"))
        first = await whole(store, node)
        assert ids(first.claims) == jobs[:2]
        await store.settle_jobs(node, [retried(first.claims[0], delay=60.0)])
        await finished(store, node, first.claims[1:])
        answer = await whole(store, node)
        assert ids(answer.claims) == [jobs[3]], "a waits for the one that was put back"
        assert (answer.blocked, answer.keys) == (1, 2)
        assert answer.due_in == pytest.approx(60, abs=5)
        await store.control_job(Verb.RESCHEDULE, jobs[0], Change(delay=timedelta(0)))
        assert ids((await whole(store, node)).claims) == [jobs[0]]

    async def test_what_was_put_back_goes_before_what_is_more_urgent(self, store: Store) -> None:
        node = await offered(store, ordered=True)
        (low,) = await enqueued(store, behind(gate("a"), priority=Priority.LOW))
        (claim,) = (await whole(store, node)).claims
        await store.settle_jobs(node, [retried(claim, delay=0.0)])
        (urgent,) = await enqueued(store, behind(gate("a"), priority=Priority.CRITICAL))
        answer = await whole(store, node, least=Priority.CRITICAL, boost=timedelta(0))
        assert ids(answer.claims) == [low]
        await finished(store, node, answer.claims)
        assert ids((await whole(store, node)).claims) == [urgent]

    async def test_a_job_that_was_put_back_holds_its_key_while_it_is_paused(
        self, store: Store
    ) -> None:
        node = await offered(store, ordered=True)
        await enqueued(store, behind(gate("a")), behind(gate("a")))
        (claim,) = (await whole(store, node)).claims
        await store.settle_jobs(node, [retried(claim, delay=0.0)])
        await store.control_job(Verb.PAUSE, claim.id, Change())
        assert (await whole(store, node)).claims == []
        await store.control_job(Verb.CANCEL, claim.id, Change())
        assert len((await whole(store, node)).claims) == 1

    async def test_it_looks_at_no_more_than_it_was_told_to(self, store: Store) -> None:
        node = await offered(store)
        jobs = await enqueued(
            store, *(behind(gate("a"), delay=-60.0) for _ in range(20)), behind(gate("b"))
        )
        first = await whole(store, node, walk=10)
        assert (ids(first.claims), first.blocked, first.is_all) == ([jobs[0]], 9, False)
        assert first.crowd == [lane(gate("a"))]
        assert first.last is not None
        # Where the crowd is left to itself, the next scan may begin behind it.
        apart, floors, found = [lane(gate("a"))], NOTHING, list[UUID]()
        for _ in range(3):
            answer = await whole(store, node, walk=10, without=apart, floors=floors)
            floors = answer.floors
            found += ids(answer.claims)
        assert found == [jobs[-1]]
        assert await running(store, LIMIT) == 2

    async def test_a_floor_is_never_above_what_is_left(self, store: Store) -> None:
        node = await offered(store)
        await enqueued(store, *(behind(gate(key), delay=-3_600.0) for key in "aabc"))
        answer = await whole(store, node)
        assert len(answer.claims) == 3
        await finished(store, node, answer.claims)
        assert len((await whole(store, node, floors=answer.floors)).claims) == 1

    async def test_other_lanes_are_no_part_of_a_family(self, store: Store) -> None:
        smtp = Gate("resource:smtp")
        await store.declare_limits([Limit(smtp.name, 9), Limit("task:charger#", 9)])
        node = await offered(store)
        other = Gate(gate_name("task", "charger", "a"))
        suspect = new_job()._replace(lane=suspect_lane(lane(gate("s"))))
        needy = new_job(needs=("gpu",))._replace(lane=lane(gate("g"), needs=("gpu",)))
        (mine, *_) = await enqueued(
            store, behind(gate("a")), behind(smtp, gate("b")), behind(other), suspect, needy
        )
        assert ids((await whole(store, node)).claims) == [mine]
        found = await store.gated_lanes([QUEUE], "", 10, BOOST, [CHARGE])
        assert suspect.lane in [each.lane for each in found]
        gpu = await whole(store, node, family="default+gpu~task:charge")
        assert ids(gpu.claims) == [needy.id]

    async def test_a_look_at_lanes_steps_over_families(self, store: Store) -> None:
        node = await offered(store)
        smtp = Gate("resource:smtp")
        await enqueued(store, *(behind(gate(str(number))) for number in range(30)), behind(smtp))
        other = Gate(gate_name("task", "x", "1"))
        await enqueued(store, behind(other), behind(Gate("task:charge")))
        found = await store.gated_lanes([QUEUE], "", 10, BOOST, [CHARGE])
        lanes = [each.lane for each in found]
        assert [each for each in lanes if "#" not in each] == [
            lane(smtp),
            lane(Gate("task:charge")),
        ]
        assert lane(other) in lanes
        assert sum(each.startswith(f"{CHARGE}#") for each in lanes) == 1
        assert len(lanes) == 4
        assert await claimed(store, node) == []

    async def test_what_has_to_be_asked_lane_by_lane_is_refused(self, store: Store) -> None:
        node = await offered(store)
        await enqueued(store, behind(gate("a")))
        await store.set_limit(Limit(LIMIT, 1, Rate(1, HOUR)))
        assert (await whole(store, node)).refusal is Refusal.NOT_OFFERED
        await store.reset_limit(LIMIT)
        unknown = await whole(store, node, family="default~task:unknown")
        assert unknown.refusal is Refusal.NOT_OFFERED
        await store.set_limit(Limit(f"queue:{QUEUE}", 1))
        assert (await whole(store, node)).refusal is Refusal.NOT_OFFERED
        await store.reset_limit(f"queue:{QUEUE}")
        assert len((await whole(store, node)).claims) == 1

    async def test_a_paused_queue_gives_nothing_of_a_family(self, store: Store) -> None:
        node = await offered(store)
        await enqueued(store, behind(gate("a")))
        await store.pause_queue(QUEUE)
        answer = await whole(store, node)
        assert (answer.claims, answer.refusal) == ([], Refusal.PAUSED)
        await store.resume_queue(QUEUE)
        assert len((await whole(store, node)).claims) == 1

    async def test_the_dead_get_nothing_of_a_family(self, store: Store) -> None:
        await offered(store)
        await enqueued(store, behind(gate("a")))
        dead = await joined(store, lease=timedelta(0))
        answer = await whole(store, dead)
        assert (answer.claims, answer.refusal) == ([], Refusal.DEAD)

    async def test_what_is_due_later_is_told(self, store: Store) -> None:
        node = await offered(store)
        await enqueued(store, behind(gate("a"), delay=3_600.0))
        answer = await whole(store, node)
        assert (answer.claims, answer.head, answer.blocked) == ([], None, 0)
        assert answer.due_in == pytest.approx(3_600, abs=60)

    async def test_a_release_puts_it_back_where_it_was(self, store: Store) -> None:
        node = await offered(store)
        jobs = await enqueued(store, behind(gate("a")), behind(gate("a")))
        (claim,) = (await whole(store, node)).claims
        await store.release_claims(node, [(claim.id, claim.fence)])
        assert await running(store, LIMIT) == 0
        assert ids((await whole(store, node)).claims) == jobs[:1]
