"""What `LimitStore` promises to those who decide whose turn it is: order, heads and weights."""

from datetime import timedelta

import pytest

from detent.model.gates import Gate, gate_name
from detent.model.limits import Limit
from detent.model.rates import Rate
from detent.spi.store import Store
from detent.testing.conformance.builders import HOUR, MINUTE
from detent.testing.conformance.limits import BOOST, QUEUE, SMTP, asked, behind, finished, lane
from detent.testing.conformance.steps import enqueued, joined, now_of


class TurnConformance:
    """The most urgent of each lane, and what the key of a fair share weighs."""

    async def test_fair_gates_limit_nothing(self, store: Store) -> None:
        fair = Gate("fair:default#a", 3)
        await enqueued(store, *(behind(fair) for _ in range(3)))
        node = await joined(store)
        answer = await asked(store, node, lane(fair))
        assert len(answer.claims) == 3
        assert not answer.claims[0].hooks, "nothing to be given back"

    async def test_the_best_come_first_and_no_more_than_asked_for(self, store: Store) -> None:
        await store.declare_limits([Limit(SMTP.name, 100)])
        now = await now_of(store)
        low, high, old = await enqueued(
            store,
            behind(SMTP, priority=1, due_at=now - MINUTE),
            behind(SMTP, priority=3, due_at=now - MINUTE),
            behind(SMTP, priority=0, due_at=now - HOUR),
        )
        node = await joined(store)
        answer = await asked(store, node, lane(SMTP), room=2)
        assert [claim.id for claim in answer.claims] == [old, high]
        answer = await asked(store, node, lane(SMTP), limit=1)
        assert [claim.id for claim in answer.claims] == [low]

    async def test_what_is_less_urgent_than_asked_for_stays(self, store: Store) -> None:
        await store.declare_limits([Limit(SMTP.name, 100)])
        now = await now_of(store)
        critical, aged, _low = await enqueued(
            store,
            behind(SMTP, priority=4, due_at=now - MINUTE),
            behind(SMTP, priority=1, due_at=now - 3 * BOOST - MINUTE),
            behind(SMTP, priority=1, due_at=now - 2 * BOOST - MINUTE),
        )
        node = await joined(store)
        looked = (await asked(store, node, lane(SMTP), room=0, least=4)).lanes[0]
        assert (looked.taken, looked.blocked_by, looked.due_in) == (0, None, 0)
        assert looked.head is not None
        assert looked.head.priority == 1, "it has waited longest of the two most urgent"
        answer = await asked(store, node, lane(SMTP), least=4)
        assert [claim.id for claim in answer.claims] == [aged, critical]
        (told,) = answer.lanes
        assert (told.taken, told.blocked_by, told.due_in) == (2, None, 0)
        assert told.head is not None
        assert told.head.priority == 1
        assert told.head.waited == pytest.approx(31 * 60, abs=5)
        again = await asked(store, node, lane(SMTP), room=1, least=4)
        assert again.claims == []
        assert again.lanes[0].head is not None
        unaged = await asked(store, node, lane(SMTP), least=2, boost=timedelta(0))
        assert unaged.claims == []
        assert unaged.lanes[0].due_in == 0
        (found,) = await store.gated_lanes([QUEUE], "", 10, BOOST)
        assert found.head is not None
        assert found.head.priority == 1
        assert len((await asked(store, node, lane(SMTP), least=3)).claims) == 1

    async def test_a_lane_without_due_jobs_has_no_head(self, store: Store) -> None:
        await store.declare_limits([Limit(SMTP.name, 100)])
        await enqueued(store, behind(SMTP, delay=60.0), behind(SMTP))
        node = await joined(store)
        (found,) = await store.gated_lanes([QUEUE], "", 10, BOOST)
        assert found.head is not None
        assert found.head.priority == 2
        (told,) = (await asked(store, node, lane(SMTP))).lanes
        assert (told.taken, told.head) == (1, None)
        (found,) = await store.gated_lanes([QUEUE], "", 10, BOOST)
        assert found.head is None

    async def test_shares_have_the_weights_of_their_limits(self, store: Store) -> None:
        gold, other = Gate(gate_name("fair", QUEUE, "gold")), Gate(gate_name("fair", QUEUE, ""))
        await store.declare_limits([Limit(gold.name, weight=3)])
        await enqueued(store, *(behind(gold) for _ in range(2)), behind(other))
        node = await joined(store)
        answer = await asked(store, node, lane(gold), lane(other), room=1)
        assert [each.weight for each in answer.lanes] == [3, None]
        await store.set_limit(Limit(gold.name, weight=5))
        await store.set_limit(Limit(other.name, weight=2))
        answer = await asked(store, node, lane(gold), lane(other), room=1)
        assert [each.weight for each in answer.lanes] == [5, 2]
        assert [each.limit for each in await store.limits()] == [
            Limit(other.name, weight=2),
            Limit(gold.name, weight=5),
        ]
        assert await store.reset_limit(gold.name) == Limit(gold.name, weight=3)
        assert await store.reset_limit(other.name) is None

    async def test_what_is_left_is_kept_for_a_job_that_needs_more(self, store: Store) -> None:
        heavy = Gate(SMTP.name, 3)
        await store.declare_limits([Limit(SMTP.name, 4)])
        await enqueued(store, *(behind(SMTP) for _ in range(9)))
        node = await joined(store)
        first = await asked(store, node, lane(SMTP), room=2)
        # It may come, but nothing has come yet.
        nothing = await asked(store, node, lane(heavy), lane(SMTP), room=1)
        assert [(each.taken, each.keeps) for each in nothing.lanes] == [(0, False), (1, False)]
        await finished(store, node, nothing.claims)
        await enqueued(store, behind(heavy))
        answer = await asked(store, node, lane(heavy), lane(SMTP))
        assert [(each.taken, each.blocked_by, each.keeps) for each in answer.lanes] == [
            (0, SMTP.name, True),
            (0, SMTP.name, False),
        ]
        # Who comes before it may have what there is.
        before = await asked(store, node, lane(SMTP), lane(heavy))
        assert [(each.taken, each.keeps) for each in before.lanes] == [(2, False), (0, True)]
        await finished(store, node, [*first.claims, *before.claims])
        last = await asked(store, node, lane(heavy), lane(SMTP))
        assert [(each.taken, each.keeps) for each in last.lanes] == [(1, False), (1, False)]

    async def test_nothing_is_kept_for_a_job_that_can_never_run(self, store: Store) -> None:
        heavy = Gate(SMTP.name, 3)
        await enqueued(store, behind(heavy), behind(SMTP))
        node = await joined(store)
        unknown = await asked(store, node, lane(heavy), lane(SMTP))
        assert [(each.taken, each.keeps) for each in unknown.lanes] == [(0, False), (0, False)]
        await store.set_limit(Limit(SMTP.name, 2))
        answer = await asked(store, node, lane(heavy), lane(SMTP))
        assert [(each.taken, each.keeps) for each in answer.lanes] == [(0, False), (1, False)]

    async def test_nothing_is_kept_for_a_queue_that_is_paused(self, store: Store) -> None:
        heavy = Gate(SMTP.name, 3)
        await store.set_limit(Limit(SMTP.name, 3))
        await enqueued(store, behind(SMTP), behind(heavy))
        node = await joined(store)
        assert len((await asked(store, node, lane(SMTP))).claims) == 1
        await store.pause_queue(QUEUE)
        (told,) = (await asked(store, node, lane(heavy))).lanes
        assert (told.taken, told.keeps) == (0, False)
        assert told.blocked_by is not None

    async def test_tokens_are_kept_for_a_job_that_needs_more(self, store: Store) -> None:
        heavy = Gate(SMTP.name, 5)
        await store.set_limit(Limit(SMTP.name, rate=Rate(5, HOUR, burst=5)))
        await enqueued(store, *(behind(SMTP) for _ in range(5)))
        node = await joined(store)
        await asked(store, node, lane(SMTP), room=3)
        await enqueued(store, behind(heavy))
        answer = await asked(store, node, lane(heavy), lane(SMTP))
        assert [(each.taken, each.keeps) for each in answer.lanes] == [(0, True), (0, False)]
        waits = [each.retry_after or 0.0 for each in answer.lanes]
        assert waits == [pytest.approx(3 * 3_600 / 5, abs=60)] * 2
