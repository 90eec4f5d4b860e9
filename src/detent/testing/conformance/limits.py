"""What `LimitStore` and `RateStore` promise: gates that let in what they may, and never leak."""

import asyncio
from collections.abc import Sequence
from datetime import timedelta
from uuid import UUID

import pytest

from detent.model.gates import Gate, gate_name, gates_of, written
from detent.model.job import Claim, Hook, NewJob, lane_of
from detent.model.limits import Limit
from detent.model.rates import Algorithm, Rate
from detent.model.rescue import suspect_lane
from detent.model.state import State, Verb
from detent.spi.limits import GatedAnswer, GatedRequest
from detent.spi.rates import RateAsk
from detent.spi.scans import LaneScan
from detent.spi.store import Change, Store
from detent.testing.conformance.builders import HOUR, MINUTE, completion, new_job, settlement
from detent.testing.conformance.steps import claimed, enqueued, joined, state_of, succession

QUEUE = "default"
SMTP = Gate("resource:smtp")
BOOST = timedelta(minutes=15)


def lane(*gates: Gate, queue: str = QUEUE, needs: Sequence[str] = ()) -> str:
    """Return the lane of jobs behind gates."""
    return lane_of(queue, needs, [written(gate) for gate in gates])


def behind(*gates: Gate, queue: str = QUEUE, **options: object) -> NewJob:
    """Return a job behind gates."""
    return new_job(queue, **options)._replace(lane=lane(*gates, queue=queue))  # type: ignore[arg-type]


async def asked(
    store: Store,
    node: UUID,
    *lanes: str,
    room: int = 100,
    limit: int = 1_000,
    free: int | None = None,
    least: int = 0,
    queue: str = QUEUE,
    boost: timedelta = BOOST,
) -> GatedAnswer:
    """Claim from gated lanes."""
    return await store.claim_gated(
        GatedRequest(
            node,
            [LaneScan(each, queue, room) for each in lanes],
            [room if free is None else free] * len(lanes),
            [least] * len(lanes),
            limit,
            boost,
            8_192,
        )
    )


async def finished(store: Store, node: UUID, claims: Sequence[Claim]) -> None:
    """Write successes of jobs that hold permits."""
    done = await store.finish_jobs(node, [completion(claim) for claim in claims])
    assert sorted(done) == sorted(claim.id for claim in claims)


async def running(store: Store, name: str) -> int:
    """Return how much of a limit is taken."""
    return {each.limit.name: each.running for each in await store.limits()}[name]


class LimitConformance:
    """Declaring, claiming behind gates, giving back; and rates."""

    async def test_no_more_run_than_a_resource_has_permits(self, store: Store) -> None:
        await store.declare_limits([Limit(SMTP.name, 3)])
        ids = await enqueued(store, *(behind(SMTP) for _ in range(5)))
        node = await joined(store)
        answer = await asked(store, node, lane(SMTP))
        assert [claim.id for claim in answer.claims] == ids[:3]
        assert all(claim.hooks & Hook.LIMIT for claim in answer.claims)
        (told,) = answer.lanes
        assert (told.taken, told.blocked_by, told.retry_after) == (3, SMTP.name, None)
        assert told.due_in == 0
        assert await running(store, SMTP.name) == 3
        again = await asked(store, node, lane(SMTP))
        assert again.claims == []
        await finished(store, node, answer.claims[:2])
        assert await running(store, SMTP.name) == 1
        more = await asked(store, node, lane(SMTP))
        assert [claim.id for claim in more.claims] == ids[3:]

    async def test_claims_without_gates_leave_gated_lanes_alone(self, store: Store) -> None:
        await enqueued(store, behind(SMTP))
        node = await joined(store)
        assert await claimed(store, node) == []

    async def test_lanes_that_share_a_gate_share_its_permits(self, store: Store) -> None:
        task = Gate("task:send")
        await store.declare_limits([Limit(SMTP.name, 4), Limit(task.name, 3)])
        await enqueued(store, *(behind(SMTP) for _ in range(3)))
        await enqueued(store, *(behind(SMTP, task) for _ in range(3)))
        node = await joined(store)
        answer = await asked(store, node, lane(SMTP, task), lane(SMTP))
        assert [each.taken for each in answer.lanes] == [3, 1]
        assert await running(store, SMTP.name) == 4
        assert await running(store, task.name) == 3

    async def test_weights_count(self, store: Store) -> None:
        heavy = Gate(SMTP.name, 2)
        await store.declare_limits([Limit(SMTP.name, 5)])
        await enqueued(store, *(behind(heavy) for _ in range(4)))
        await enqueued(store, *(behind(SMTP) for _ in range(4)))
        node = await joined(store)
        answer = await asked(store, node, lane(heavy), lane(SMTP))
        assert [each.taken for each in answer.lanes] == [2, 1]
        assert await running(store, SMTP.name) == 5

    async def test_each_key_has_its_own_limit_and_keeps_its_order(self, store: Store) -> None:
        await store.declare_limits([Limit("task:send#", 1)])
        a, b = (Gate(gate_name("task", "send", key)) for key in ("a~+!*#%", "b"))
        of_a = await enqueued(store, *(behind(a) for _ in range(3)))
        of_b = await enqueued(store, *(behind(b) for _ in range(3)))
        node = await joined(store)
        order = []
        for _ in range(3):
            answer = await asked(store, node, lane(a), lane(b))
            assert len(answer.claims) == 2
            order += [claim.id for claim in answer.claims]
            await finished(store, node, answer.claims)
        assert [job for job in order if job in of_a] == of_a
        assert [job for job in order if job in of_b] == of_b

    async def test_a_gate_that_nobody_declared_lets_nothing_in(self, store: Store) -> None:
        await enqueued(store, behind(SMTP))
        node = await joined(store)
        answer = await asked(store, node, lane(SMTP))
        assert answer.claims == []
        assert answer.lanes[0].blocked_by == SMTP.name

    async def test_a_node_that_is_not_alive_gets_nothing(self, store: Store) -> None:
        await store.declare_limits([Limit(SMTP.name, 3)])
        await enqueued(store, behind(SMTP))
        gone = await joined(store, timedelta(0))
        assert (await asked(store, gone, lane(SMTP))).claims == []

    async def test_jobs_of_a_paused_queue_stay(self, store: Store) -> None:
        await store.declare_limits([Limit(SMTP.name, 3)])
        await enqueued(store, behind(SMTP))
        await store.pause_queue(QUEUE)
        node = await joined(store)
        answer = await asked(store, node, lane(SMTP))
        assert answer.claims == []
        assert answer.lanes[0].blocked_by == "queue:default", "nobody need ask again and again"
        await store.resume_queue(QUEUE)
        assert len((await asked(store, node, lane(SMTP))).claims) == 1

    @pytest.mark.parametrize("state", [State.SUCCEEDED, State.FAILED, State.PENDING, State.WAITING])
    async def test_every_end_gives_permits_back(self, store: Store, state: State) -> None:
        await store.declare_limits([Limit(SMTP.name, 1)])
        await enqueued(store, behind(SMTP))
        node = await joined(store)
        (claim,) = (await asked(store, node, lane(SMTP))).claims
        assert await running(store, SMTP.name) == 1
        said = settlement(claim, state)
        assert await store.settle_jobs(node, [said]) == [claim.id]
        assert await running(store, SMTP.name) == 0

    async def test_released_and_rescued_claims_give_permits_back(self, store: Store) -> None:
        await store.declare_limits([Limit(SMTP.name, 2)])
        await enqueued(store, behind(SMTP), behind(SMTP))
        node = await joined(store)
        one, two = (await asked(store, node, lane(SMTP))).claims
        assert await store.release_claims(node, [(one.id, one.fence)]) == 1
        assert await running(store, SMTP.name) == 1
        await store.declare_dead([node], "killed")
        rescued = await store.rescue(10, 3)
        assert [job.id for job in rescued.jobs] == [two.id]
        assert await running(store, SMTP.name) == 0
        other = await joined(store)
        assert len((await asked(store, other, lane(SMTP))).claims) == 2

    async def test_a_late_end_of_a_dead_node_gives_nothing_back(self, store: Store) -> None:
        await store.declare_limits([Limit(SMTP.name, 1)])
        await enqueued(store, behind(SMTP))
        dead = await joined(store)
        (claim,) = (await asked(store, dead, lane(SMTP))).claims
        await store.declare_dead([dead], "stopped")
        await store.rescue(10, 3)
        other = await joined(store)
        assert len((await asked(store, other, lane(SMTP))).claims) == 1
        assert await store.finish_jobs(dead, [completion(claim)]) == []
        assert await running(store, SMTP.name) == 1

    async def test_suspects_stay_behind_their_gates(self, store: Store) -> None:
        await store.declare_limits([Limit(SMTP.name, 1)])
        await enqueued(store, behind(SMTP))
        node = await joined(store)
        await asked(store, node, lane(SMTP))
        await store.declare_dead([node], "killed")
        await store.rescue(10, 2)
        suspects = suspect_lane(lane(SMTP))
        assert gates_of(suspects) == (SMTP,)
        other = await joined(store)
        assert (await asked(store, other, lane(SMTP))).claims == []
        assert [each.lane for each in await store.gated_lanes([QUEUE], "", 10, BOOST)] == [suspects]
        assert len((await asked(store, other, suspects)).claims) == 1
        assert await running(store, SMTP.name) == 1

    async def test_delayed_jobs_are_told_of(self, store: Store) -> None:
        await store.declare_limits([Limit(SMTP.name, 1)])
        await enqueued(store, behind(SMTP, delay=60.0))
        node = await joined(store)
        (told,) = (await asked(store, node, lane(SMTP))).lanes
        assert told.due_in == pytest.approx(60, abs=5)
        (found,) = await store.gated_lanes([QUEUE], "", 10, BOOST)
        assert found.due_in == pytest.approx(60, abs=5)

    async def test_lanes_are_found_in_pages(self, store: Store) -> None:
        gates = [Gate(gate_name("task", "send", f"key {number}")) for number in range(7)]
        jobs = [behind(gate) for gate in gates for _ in range(3)]
        elsewhere = behind(SMTP, queue="default-2")
        gpu = new_job(needs=("gpu",))._replace(lane=lane(SMTP, needs=("gpu",)))
        await enqueued(store, *jobs, elsewhere, gpu, new_job())
        found: list[str] = []
        while page := await store.gated_lanes([QUEUE], found[-1] if found else "", 3, BOOST):
            found += [each.lane for each in page]
        assert found == sorted({*(lane(gate) for gate in gates), gpu.lane}, key=str.encode)
        assert all(each.due_in == 0 for each in await store.gated_lanes([QUEUE], "", 3, BOOST))

    async def test_pages_leave_out_no_lane_of_any_queue(self, store: Store) -> None:
        gates = [Gate(gate_name("resource", f"printer {number:02}")) for number in range(12)]
        early = [behind(gate, queue="a") for gate in gates]
        late = [behind(gate, queue="z") for gate in gates[:2]]
        await enqueued(store, *early, *late, behind(SMTP, queue="unasked"))
        found: list[str] = []
        while page := await store.gated_lanes(
            ["z", "m", "a"], found[-1] if found else "", 4, BOOST
        ):
            found += [each.lane for each in page]
        assert found == sorted((job.lane for job in (*early, *late)), key=str.encode)

    async def test_the_limit_of_a_queue_holds_for_all_its_jobs(self, store: Store) -> None:
        await store.declare_limits([Limit("queue:default", 2), Limit(SMTP.name, 5)])
        await enqueued(store, new_job(), new_job(), behind(SMTP), behind(SMTP))
        node = await joined(store)
        assert list((await store.beat(node, HOUR)).limited) == [QUEUE]
        assert await claimed(store, node) == []
        assert await store.look([QUEUE]) == []
        assert await store.next_due([LaneScan(QUEUE, QUEUE, 1)]) == {}
        answer = await asked(store, node, QUEUE, lane(SMTP), room=1)
        assert [each.taken for each in answer.lanes] == [1, 1]
        assert await running(store, "queue:default") == 2
        assert (await asked(store, node, QUEUE, lane(SMTP))).claims == []
        await finished(store, node, answer.claims)
        await store.reset_limit("queue:default")
        assert await store.reset_limit("queue:default") is not None, "code still says so"

    async def test_a_queue_without_its_limit_is_open_again(self, store: Store) -> None:
        await store.set_limit(Limit("queue:default", 1))
        await enqueued(store, new_job(), new_job())
        node = await joined(store)
        (claim,) = (await asked(store, node, QUEUE)).claims
        assert await store.reset_limit("queue:default") is None
        assert len(await claimed(store, node)) == 1
        await finished(store, node, [claim])

    async def test_operators_win_over_code(self, store: Store) -> None:
        await store.declare_limits([Limit(SMTP.name, 2)])
        await store.set_limit(Limit(SMTP.name, 1))
        await store.declare_limits([Limit(SMTP.name, 3, Rate(5))])
        (told,) = await store.limits()
        assert told.limit == Limit(SMTP.name, 1)
        assert told.declared == Limit(SMTP.name, 3, Rate(5))
        assert told.edited
        await enqueued(store, behind(SMTP), behind(SMTP))
        node = await joined(store)
        assert len((await asked(store, node, lane(SMTP))).claims) == 1
        assert await store.reset_limit(SMTP.name) == Limit(SMTP.name, 3, Rate(5))
        (told,) = await store.limits()
        assert (told.limit, told.edited) == (Limit(SMTP.name, 3, Rate(5)), False)
        assert len((await asked(store, node, lane(SMTP))).claims) == 1
        assert await store.reset_limit("resource:unknown") is None

    async def test_a_new_declaration_replaces_the_old_one(self, store: Store) -> None:
        rate = Rate(7, timedelta(minutes=2), algorithm=Algorithm.WINDOW)
        await store.declare_limits([Limit(SMTP.name, 2)])
        await store.declare_limits([Limit(SMTP.name, rate=rate), Limit("task:send", 1)])
        assert [each.limit for each in await store.limits()] == [
            Limit(SMTP.name, rate=rate),
            Limit("task:send", 1),
        ]

    async def test_a_limit_holds_however_many_ask_at_once(self, store: Store) -> None:
        await store.declare_limits([Limit(SMTP.name, 5)])
        await enqueued(store, *(behind(SMTP) for _ in range(50)))
        nodes = [await joined(store) for _ in range(8)]
        answers = await asyncio.gather(
            *(asked(store, node, lane(SMTP), room=3) for node in nodes for _ in range(3))
        )
        ids = [claim.id for answer in answers for claim in answer.claims]
        assert len(ids) == len(set(ids)) == 5

    async def test_a_canceled_job_leaves_its_lane(self, store: Store) -> None:
        await store.declare_limits([Limit(SMTP.name, 1)])
        (job,) = await enqueued(store, behind(SMTP))
        await store.control_job(Verb.CANCEL, job, Change())
        assert await state_of(store, job) is State.CANCELED
        assert await store.gated_lanes([QUEUE], "", 10, BOOST) == []

    async def test_a_rate_lets_in_its_burst_and_says_when_to_come_again(self, store: Store) -> None:
        gate = Gate("rate:send")
        await store.declare_limits([Limit(gate.name, rate=Rate(6, MINUTE, burst=2))])
        await enqueued(store, *(behind(gate) for _ in range(5)))
        node = await joined(store)
        answer = await asked(store, node, lane(gate))
        assert len(answer.claims) == 2
        assert not answer.claims[0].hooks, "a rate is not given back"
        assert answer.lanes[0].blocked_by == gate.name
        assert answer.lanes[0].retry_after == pytest.approx(10, abs=2)
        again = await asked(store, node, lane(gate))
        assert again.claims == []
        assert again.lanes[0].retry_after == pytest.approx(10, abs=2)

    async def test_a_window_counts_everything_within_it(self, store: Store) -> None:
        gate = Gate("rate:send")
        rate = Rate(3, MINUTE, algorithm=Algorithm.WINDOW)
        await store.declare_limits([Limit(gate.name, rate=rate)])
        await enqueued(store, *(behind(gate) for _ in range(5)))
        node = await joined(store)
        first = await asked(store, node, lane(gate), room=2)
        assert len(first.claims) == 2
        assert first.lanes[0].blocked_by is None
        second = await asked(store, node, lane(gate))
        assert len(second.claims) == 1
        assert second.lanes[0].retry_after == pytest.approx(60, abs=5)

    async def test_what_is_under_a_rate_is_not_claimed_to_wait(self, store: Store) -> None:
        gate = Gate("rate:send")
        await store.declare_limits([Limit(gate.name, rate=Rate(100)), Limit(SMTP.name, 100)])
        await enqueued(store, *(behind(gate) for _ in range(5)), *(behind(SMTP) for _ in range(5)))
        node = await joined(store)
        answer = await asked(store, node, lane(gate), lane(SMTP), free=2)
        assert [each.taken for each in answer.lanes] == [2, 5]

    async def test_take_grants_all_or_nothing(self, store: Store) -> None:
        rate = Rate(5, MINUTE, burst=3)
        asks = [RateAsk("ip:1", rate, 2), RateAsk("ip:1", rate, 2), RateAsk("ip:1", rate)]
        first, second, third = await store.take(asks)
        assert (first.granted, first.remaining, first.retry_after) == (True, 1, 0)
        assert (second.granted, second.remaining) == (False, 1)
        assert second.retry_after == pytest.approx(12, abs=2)
        assert (third.granted, third.remaining) == (True, 0)
        (other,) = await store.take([RateAsk("ip:2", rate, 3)])
        assert other.granted

    async def test_take_by_window(self, store: Store) -> None:
        rate = Rate(2, MINUTE, algorithm=Algorithm.WINDOW)
        answers = await store.take([RateAsk("user:1", rate)] * 3)
        assert [each.granted for each in answers] == [True, True, False]
        assert answers[2].retry_after == pytest.approx(60, abs=5)

    async def test_take_is_exact_however_many_ask(self, store: Store) -> None:
        rate = Rate(10, HOUR, burst=10)
        answers = await asyncio.gather(*(store.take([RateAsk("all", rate)]) for _ in range(30)))
        assert sum(each.granted for (each,) in answers) == 10

    async def test_rates_that_are_full_again_are_forgotten(self, store: Store) -> None:
        quick = Rate(1_000_000)
        window = Rate(1, timedelta(microseconds=1), algorithm=Algorithm.WINDOW)
        await store.take([RateAsk("a", quick), RateAsk("b", Rate(1, HOUR)), RateAsk("c", window)])
        old, term = await succession(store)
        assert await store.forget_rates(0.0, 10, old) == 0, "an old term writes nothing"
        assert await store.forget_rates(0.0, 10, term) == 2
        assert await store.forget_rates(0.0, 10) == 0
        (answer,) = await store.take([RateAsk("b", Rate(1, HOUR))])
        assert not answer.granted, "an empty bucket is remembered"
