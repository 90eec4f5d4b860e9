"""What `OutboxStore` promises: no event is lost."""

import asyncio
import json
from collections import Counter
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager, AbstractContextManager
from datetime import timedelta
from typing import Any
from uuid import UUID

import pytest

from detent.model.job import Claim, Hook, NewJob, Settlement
from detent.model.state import State, Verb
from detent.spi.outbox import OutboxEvent
from detent.spi.store import Change, PendingCompletion, Store
from detent.testing.conformance.builders import (
    HOUR,
    canceled,
    claim_request,
    failed,
    lane_scan,
    new_id,
    new_job,
    prepared,
    released,
    retried,
    settlement,
    unique,
)
from detent.testing.conformance.steps import claimed, joined, now_of

NO_TIME = timedelta(0)
SINK = "billing"
ALL = ("succeeded", "failed", "canceled")


def watched(*states: str, sinks: tuple[str, ...] = (SINK,), **values: Any) -> NewJob:
    """Return a job whose end sinks are to hear of."""
    options = json.dumps({"sinks": {sink: list(states or ALL) for sink in sinks}}).encode()
    job = new_job(**values)
    return job._replace(options=options, hooks=int(job.hooks | Hook.EVENT))


async def running(store: Store, node: UUID, job: NewJob) -> Claim:
    """Enqueue a job and claim it."""
    await store.enqueue_jobs([job])
    (claim,) = await claimed(store, node)
    assert claim.id == job.id
    return claim


async def waiting(store: Store, sink: str = SINK) -> list[OutboxEvent]:
    """Return the events that wait."""
    return [info.event for info in await store.list_events(sink=sink)]


async def taken(store: Store, lease: timedelta = HOUR, limit: int = 100) -> list[OutboxEvent]:
    """Take what is due."""
    return (await store.take_events({SINK: limit}, lease)).events


async def ended(store: Store, count: int = 1, sinks: tuple[str, ...] = (SINK,)) -> list[UUID]:
    """Let some jobs succeed; return their ids."""
    node = await joined(store)
    jobs = [watched(sinks=sinks) for _ in range(count)]
    await store.enqueue_jobs(jobs)
    claims = await claimed(store, node)
    ends = [settlement(claim, State.SUCCEEDED) for claim in claims]
    assert len(await store.finish_hooked(node, ends)) == count
    return [job.id for job in jobs]


async def failed_and_retried(store: Store) -> None:
    """Let a job fail, and succeed when an operator retries it: two events of one job."""
    node, job = await joined(store), watched()
    claim = await running(store, node, job)
    await store.finish_hooked(node, [failed(claim)])
    await store.control_job(Verb.RETRY, job.id, Change())
    (claim,) = await claimed(store, node)
    await store.finish_hooked(node, [settlement(claim, State.SUCCEEDED)])


class OutboxConformance:
    """Events with ends, deliveries, and what cannot be delivered."""

    @pytest.mark.parametrize(
        "end, kind",
        [
            (lambda claim: settlement(claim, State.SUCCEEDED), "succeeded"),
            (failed, "failed"),
            (canceled, "canceled"),
        ],
    )
    async def test_an_end_writes_its_event(
        self, store: Store, end: Callable[[Claim], Settlement], kind: str
    ) -> None:
        node, job = await joined(store), watched(queue="mail")
        await store.enqueue_jobs([job])
        (claim,) = await claimed(store, node, "mail")
        said = end(claim)
        assert await store.finish_hooked(node, [said]) == [job.id]
        (event,) = await waiting(store)
        assert event.id > 0
        assert event[1:8] == (SINK, kind, job.id, "shop.send", "mail", 1, 1)
        assert event.duration == pytest.approx(1.5)
        assert (event.node, event.error, event.reason) == (node, said.error, said.reason)
        assert event.tries == 0
        assert abs(event.at - await now_of(store)) < HOUR

    @pytest.mark.parametrize("end", [released, retried])
    async def test_what_is_not_an_end_writes_nothing(
        self, store: Store, end: Callable[[Claim], Settlement]
    ) -> None:
        node = await joined(store)
        claim = await running(store, node, watched())
        assert await store.finish_hooked(node, [end(claim)]) == [claim.id]
        assert await waiting(store) == []

    async def test_each_sink_hears_of_the_states_it_wants(self, store: Store) -> None:
        node = await joined(store)
        job = watched("failed", sinks=("a", "b"))
        claim = await running(store, node, job)
        await store.finish_hooked(node, [failed(claim)])
        assert [len(await waiting(store, sink)) for sink in ("a", "b", "c")] == [1, 1, 0]
        claim = await running(store, node, watched("failed"))
        await store.finish_hooked(node, [settlement(claim, State.SUCCEEDED)])
        assert await waiting(store) == []

    async def test_a_refused_end_writes_nothing(self, store: Store) -> None:
        node = await joined(store)
        claim = await running(store, node, watched())
        late = settlement(claim, State.SUCCEEDED)._replace(fence=claim.fence + 1)
        assert await store.finish_hooked(node, [late]) == []
        assert await store.finish_hooked(new_id(), [late._replace(fence=claim.fence)]) == []
        assert await waiting(store) == []

    async def test_a_job_without_the_hook_writes_nothing(self, store: Store) -> None:
        node = await joined(store)
        claim = await running(store, node, watched()._replace(hooks=0))
        await store.settle_jobs(node, [failed(claim)])
        assert await waiting(store) == []

    async def test_a_job_with_other_hooks_writes_nothing(self, store: Store) -> None:
        node, keys = await joined(store), unique("a")
        await store.enqueue_keyed(prepared(new_job(), keys), keys)
        (claim,) = await claimed(store, node)
        await store.finish_hooked(node, [failed(claim)])
        assert await waiting(store) == []

    @pytest.mark.parametrize("verb", [None, Verb.PAUSE])
    async def test_a_cancel_of_a_job_that_does_not_run_writes_its_event(
        self, store: Store, verb: Verb | None
    ) -> None:
        job = watched()
        await store.enqueue_jobs([job])
        if verb is not None:
            await store.control_job(verb, job.id, Change())
        await store.control_job(Verb.CANCEL, job.id, Change(reason="no need"))
        (event,) = await waiting(store)
        assert (event.kind, event.job, event.reason) == ("canceled", job.id, "no need")

    async def test_a_replaced_job_writes_its_event(self, store: Store) -> None:
        keys = unique("invoice", "replace")
        first, second = (prepared(watched(), keys) for _ in range(2))
        await store.enqueue_keyed(first, keys)
        await store.enqueue_keyed(second, keys)
        assert [(event.kind, event.job) for event in await waiting(store)] == [
            ("canceled", first.id)
        ]

    async def test_a_job_that_is_replaced_in_somebodys_transaction_writes_with_his_commit(
        self, store: Store, caller_transaction: Callable[[], AbstractAsyncContextManager[Any]]
    ) -> None:
        keys = unique("invoice", "replace")
        await store.enqueue_keyed(prepared(watched(), keys), keys)
        with pytest.raises(RuntimeError):  # noqa: PT012  the last of two
            async with caller_transaction() as connection:
                await store.enqueue_within(connection, [prepared(watched(), keys)], keys)
                raise RuntimeError
        assert await waiting(store) == [], "rolled back"
        async with caller_transaction() as connection:
            await store.enqueue_within(connection, [prepared(watched(), keys)], keys)
        assert [event.kind for event in await waiting(store)] == ["canceled"]

    async def test_a_job_that_is_replaced_in_a_blocking_transaction_writes_too(
        self, store: Store, blocking_transaction: Callable[[], AbstractContextManager[Any]]
    ) -> None:
        keys = unique("invoice", "replace")
        await store.enqueue_keyed(prepared(watched(), keys), keys)
        with blocking_transaction() as connection:
            store.enqueue_within_sync(connection, [prepared(watched(), keys)], keys)
        assert [event.kind for event in await waiting(store)] == ["canceled"]

    async def test_the_job_of_a_dead_node_writes_its_event_when_it_fails_for_good(
        self, store: Store
    ) -> None:
        job = watched()
        await store.enqueue_jobs([job])
        for needs in ([], ["!"]):
            node = await joined(store)
            scan = lane_scan(needs=needs)
            assert len(await store.claim_jobs(claim_request(node, scan))) == 1
            await store.declare_dead([node], "it burned")
            rescued = (await store.rescue(10, 2)).jobs
            assert [(each.id, each.attempt) for each in rescued] == [(job.id, 1)]
        (event,) = await waiting(store)
        assert (event.kind, event.job) == ("failed", job.id)
        assert event.error is not None
        assert json.loads(event.error)["type"] == "NodeDied"

    async def test_a_transaction_of_a_job_brings_its_event(self, store: Store) -> None:
        node = await joined(store)
        claim = await running(store, node, watched())
        with pytest.raises(RuntimeError):
            async with store.transaction(node, claim, PendingCompletion("default")):
                raise RuntimeError
        assert await waiting(store) == [], "rolled back"
        async with store.transaction(node, claim, PendingCompletion("default")):
            assert await waiting(store) == []
        assert [event.kind for event in await waiting(store)] == ["succeeded"]

    async def test_a_taken_event_is_nobody_elses_until_its_lease_ends(self, store: Store) -> None:
        await ended(store)
        first = await store.take_events({SINK: 10}, HOUR)
        assert [event.tries for event in first.events] == [1]
        assert first.next_due == pytest.approx(3600, abs=5), "then its taker counts as dead"
        assert await taken(store) == []

    async def test_the_event_of_a_dead_taker_is_taken_again(self, store: Store) -> None:
        await ended(store)
        (first,) = await taken(store, NO_TIME)
        (second,) = await taken(store)
        assert second == first._replace(tries=2)
        assert not await store.put_off_event(first, HOUR, "too late"), "it is another's now"
        assert await store.events_delivered([first]) == 1, "but delivered is delivered"
        assert not await store.put_off_event(second, HOUR, "gone")

    async def test_only_asked_for_sinks_are_taken(self, store: Store) -> None:
        await ended(store)
        assert await store.take_events({"other": 10}, HOUR) == ([], None)
        assert len((await store.take_events({"other": 10, SINK: 10}, HOUR)).events) == 1

    async def test_no_more_than_asked_for_are_taken_the_oldest_first(self, store: Store) -> None:
        ids = await ended(store, 5)
        events = await taken(store, limit=2)
        assert [event.job for event in events] == ids[:2]
        assert (await store.take_events({SINK: 2}, HOUR)).next_due == 0.0
        assert len(await taken(store)) == 1

    async def test_each_sink_is_given_as_much_as_it_has_room_for(self, store: Store) -> None:
        await ended(store, 5, ("a", "b", "c"))
        first = await store.take_events({"a": 1, "b": 4, "c": 9}, HOUR)
        assert Counter(event.sink for event in first.events) == {"a": 1, "b": 4, "c": 5}
        assert first.next_due == 0.0
        second = await store.take_events({"c": 1, "b": 9}, HOUR)
        assert [event.sink for event in second.events] == ["b"], "a has none, for once"
        assert second.next_due == pytest.approx(3600, abs=5)

    async def test_many_takers_share_them(self, store: Store) -> None:
        ids = await ended(store, 20)
        rounds = await asyncio.gather(*(taken(store, limit=5) for _ in range(6)))
        # Somebody may have found rows that others were just taking.
        rounds.append(await taken(store))
        assert sorted(event.job for events in rounds for event in events) == sorted(ids)

    async def test_a_delivered_event_is_gone(self, store: Store) -> None:
        await ended(store, 2)
        first, second = await taken(store)
        assert await store.events_delivered([first]) == 1
        assert await store.events_delivered([first]) == 0, "once"
        assert [event.id for event in await waiting(store)] == [second.id]

    async def test_another_event_with_the_id_of_one_that_was_lost_stays(self, store: Store) -> None:
        """A store that has lost the end of its history may have given the id again."""
        await ended(store)
        (event,) = await taken(store)
        for other in (event._replace(job=new_id()), event._replace(kind="failed")):
            assert await store.events_delivered([other]) == 0
            assert not await store.put_off_event(other, HOUR, "of no use")
        assert [each.id for each in await waiting(store)] == [event.id]
        assert await store.events_delivered([event]) == 1

    async def test_an_event_is_put_off(self, store: Store) -> None:
        await ended(store)
        (event,) = await taken(store)
        assert await store.put_off_event(event, timedelta(minutes=1), "HTTP 503")
        answer = await store.take_events({SINK: 10}, HOUR)
        assert answer.events == []
        assert answer.next_due == pytest.approx(60, abs=5)
        (info,) = await store.list_events()
        assert (info.problem, info.parked_at, info.event.tries) == ("HTTP 503", None, 1)
        (event,) = [info.event]
        assert await store.put_off_event(event, NO_TIME, "HTTP 504")
        assert [found.tries for found in await taken(store)] == [2]

    async def test_an_undeliverable_event_stays_visible_until_it_is_retried(
        self, store: Store
    ) -> None:
        await ended(store)
        (event,) = await taken(store)
        assert await store.put_off_event(event, None, "HTTP 404")
        assert await store.take_events({SINK: 10}, HOUR) == ([], None)
        (info,) = await store.list_events(parked=True)
        assert (info.event.id, info.problem) == (event.id, "HTTP 404")
        assert info.parked_at is not None
        assert await store.list_events(parked=False) == []
        assert not await store.put_off_event(event, NO_TIME, "again")
        assert await store.retry_events([event.id + 1], None, 10) == 0
        assert await store.retry_events(None, "other", 10) == 0
        assert await store.retry_events([event.id], SINK, 10) == 1
        assert await store.retry_events(None, None, 10) == 0
        assert [found.tries for found in await taken(store)] == [1]

    async def test_events_of_one_job_go_one_after_the_other(self, store: Store) -> None:
        await failed_and_retried(store)
        first, second = await waiting(store)
        assert [(e.kind, e.generation) for e in (first, second)] == [
            ("failed", 1),
            ("succeeded", 2),
        ]
        (got,) = await taken(store)
        assert got.id == first.id
        answer = await store.take_events({SINK: 10}, HOUR)
        assert answer.events == [], "the second waits for the first"
        assert answer.next_due is not None
        assert answer.next_due > 3000, "so nobody needs to ask"
        await store.events_delivered([first])
        (got,) = await taken(store)
        assert got.id == second.id

    async def test_an_undeliverable_event_does_not_keep_the_next_back(self, store: Store) -> None:
        await failed_and_retried(store)
        (first,) = await taken(store)
        await store.put_off_event(first, None, "HTTP 404")
        assert [event.kind for event in await taken(store)] == ["succeeded"]

    async def test_events_that_nobody_wants_are_discarded(self, store: Store) -> None:
        await ended(store, 4, (SINK, "gone"))
        refused, going, *_ = await taken(store)
        await store.put_off_event(refused, None, "HTTP 404")
        assert await store.discard_events([refused.id + 1000], None, 10) == 0
        assert await store.discard_events([refused.id], "gone", 10) == 0, "of the sink, too"
        assert await store.discard_events([refused.id, going.id], SINK, 10) == 2
        assert await store.events_delivered([going]) == 0
        assert not await store.put_off_event(going, None, "too late")
        assert await store.discard_events(None, "gone", 3) == 3, "whether or not anybody tried"
        assert await store.discard_events(None, "gone", 3) == 1
        assert [len(await waiting(store, sink)) for sink in (SINK, "gone")] == [2, 0]

    async def test_old_undeliverable_events_are_removed(self, store: Store) -> None:
        await ended(store, 3)
        for event in (await taken(store))[:2]:
            await store.put_off_event(event, None, "HTTP 404")
        assert await store.prune_events(HOUR, HOUR, 10) == 0
        assert await store.prune_events(NO_TIME, HOUR, 1) == 1
        assert await store.prune_events(NO_TIME, HOUR, 10) == 1
        assert len(await waiting(store)) == 1, "who waits is never removed"

    async def test_the_event_outlives_its_job(self, store: Store) -> None:
        (job_id,) = await ended(store)
        assert await store.delete_jobs([job_id]) == [job_id]
        assert [event.job for event in await waiting(store)] == [job_id]
