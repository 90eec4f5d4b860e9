"""What `InspectStore` promises: true answers, and listings without gaps or repeats."""

from datetime import timedelta
from uuid import UUID

import pytest

from detent.model.job import JobFilter, Keys, LogLine
from detent.model.state import State, Verb
from detent.spi.nodes import UNSTARTED
from detent.spi.store import Change, QueueInfo, Store
from detent.testing.conformance.builders import (
    HOUR,
    MINUTE,
    completion,
    idempotent,
    new_id,
    new_job,
    parked,
    unique,
)
from detent.testing.conformance.steps import (
    claimed,
    enqueued,
    held,
    held_many,
    in_state,
    info,
    joined,
    now_of,
    place,
    settled,
)

ALL = JobFilter()


class InspectConformance:
    """Jobs, listings, attempts, logs and queues as people see them."""

    async def test_jobs_come_in_the_order_that_was_asked_for(self, store: Store) -> None:
        ids = await enqueued(store, *(new_job() for _ in range(4)))
        asked = [ids[2], new_id(), ids[0], ids[3]]
        found = await store.get_jobs(asked)
        assert [each.id for each in found] == [ids[2], ids[0], ids[3]]
        assert await store.get_jobs([]) == []

    async def test_those_that_ended_are_told_apart(self, store: Store) -> None:
        jobs = {state: await in_state(store, state, new_job(state)) for state in State}
        asked = [*jobs.values(), new_id()]
        found = {each.id: each.state for each in await store.ended(asked)}
        assert found == {job_id: state for state, job_id in jobs.items() if state.terminal}
        assert await store.ended([]) == []

    async def test_an_ended_job_is_told_with_its_end(self, store: Store) -> None:
        node, claim = await held(store)
        await store.finish_jobs(node, [completion(claim, b"42")])
        assert await store.ended([claim.id]) == await store.get_jobs([claim.id])

    @pytest.mark.parametrize("state", list(State), ids=str)
    async def test_a_job_keeps_its_values_in_every_state(self, store: Store, state: State) -> None:
        # Any bytes: those of an encrypted value begin with a NUL.
        args = b"\0det\xff\xfe[7]'"
        job = new_job(task="shop.crunch", priority=4, args=args, tags=["vip", "b"])
        job = job._replace(codec="other", params=b"{}", options=b'{"timeout":5.0}')
        job = job._replace(principal="ada")
        before = await now_of(store)
        job_id = await in_state(store, state, job)
        (found,) = await store.get_jobs([job_id])
        assert (found.state, found.id, found.task, found.queue) == (state, *job[:3])
        assert (found.priority, found.tags, found.needs) == (4, ("vip", "b"), ())
        assert (found.args, found.codec, found.params) == (args, "other", b"{}")
        assert found.principal == "ada"
        assert found.options == b'{"timeout":5.0}'
        after = await now_of(store)
        assert before <= found.enqueued_at <= after
        assert before <= found.due_at <= after
        assert (found.attempt, found.crashes) == (1, 0)

    # Listings

    async def _listed(self, store: Store, where: JobFilter) -> list[UUID]:
        return [found.id for found in await store.list_jobs(where, 100)]

    async def test_the_newest_is_listed_first(self, store: Store) -> None:
        ids = await enqueued(store, *(new_job() for _ in range(5)))
        listed = await store.list_jobs(ALL, 100)
        assert [found.id for found in listed] == ids[::-1]
        assert listed == await store.get_jobs(ids[::-1])

    @pytest.mark.parametrize("size", [1, 3, 7, 8])
    async def test_pages_have_no_gaps_and_no_repeats(self, store: Store, size: int) -> None:
        ids = await enqueued(store, *(new_job("mail") for _ in range(7)))
        await enqueued(store, *(new_job("other") for _ in range(3)))
        listed: list[UUID] = []
        before = None
        where = JobFilter(queue="mail")
        while page := await store.list_jobs(where, size, before):
            assert len(page) <= size
            listed += [found.id for found in page]
            before = listed[-1]
            await enqueued(store, new_job("mail"))  # newer ones do not disturb
        assert listed == ids[::-1]

    @pytest.mark.parametrize("state", list(State), ids=str)
    async def test_jobs_are_listed_by_state(self, store: Store, state: State) -> None:
        jobs = {each: await in_state(store, each, new_job(each)) for each in State}
        assert await self._listed(store, JobFilter(states=(state,))) == [jobs[state]]

    async def test_jobs_are_listed_by_several_states(self, store: Store) -> None:
        jobs = {each: await in_state(store, each, new_job(each)) for each in State}
        where = JobFilter(states=(State.FAILED, State.RUNNING, State.PENDING))
        expected = [jobs[State.PENDING], jobs[State.RUNNING], jobs[State.FAILED]]
        assert await self._listed(store, where) == sorted(expected, reverse=True)

    async def test_jobs_are_listed_by_task_queue_and_tag(self, store: Store) -> None:
        send, crunch, bulk, tagged = await enqueued(
            store,
            new_job("mail", task="shop.send"),
            new_job("mail", task="shop.crunch", needs=["gpu"]),
            new_job("bulk", task="shop.send", tags=["a"]),
            new_job("bulk", task="shop.crunch", tags=["b", "vip", "größe"]),
        )
        expected = {
            JobFilter(task="shop.send"): [bulk, send],
            JobFilter(task="shop"): [],
            JobFilter(queue="mail"): [crunch, send],
            JobFilter(queue="mail+gpu"): [],
            JobFilter(tag="vip"): [tagged],
            JobFilter(tag="größe"): [tagged],
            JobFilter(tag="vi"): [],
            JobFilter(task="shop.crunch", queue="mail"): [crunch],
            JobFilter(task="shop.send", tag="vip"): [],
            JobFilter(task="shop.crunch", tag="b", states=(State.PENDING,)): [tagged],
        }
        for where, ids in expected.items():
            assert await self._listed(store, where) == ids, where

    async def test_jobs_are_listed_by_either_key(self, store: Store) -> None:
        one, two, both = new_job(), new_job(), new_job()
        await place(store, one, idempotent("same"))
        await place(store, two, unique("same"))
        await place(store, both, Keys(idempotency="order-1", unique="user-1"))
        await enqueued(store)
        assert await self._listed(store, JobFilter(key="same")) == [two.id, one.id]
        assert await self._listed(store, JobFilter(key="order-1")) == [both.id]
        assert await self._listed(store, JobFilter(key="user-1")) == [both.id]
        assert await self._listed(store, JobFilter(key="user")) == []

    async def test_a_job_is_told_with_its_keys(self, store: Store) -> None:
        keys = Keys(idempotency="order-1", unique="user-1")
        for state in (State.PENDING, State.FAILED):
            job_id = await in_state(store, state, keys=keys)
            found = await info(store, job_id)
            assert (found.idempotency_key, found.unique_key) == ("order-1", "user-1")
            await store.control_page(Verb.CANCEL, JobFilter(), 10, Change())
            assert (await store.delete_jobs([job_id])) == [job_id]

    async def test_a_job_is_found_by_its_key_after_its_end(self, store: Store) -> None:
        old = await in_state(store, State.FAILED, keys=unique("user-1"))
        holder = new_job()
        await place(store, holder, unique("user-1"))
        assert await self._listed(store, JobFilter(key="user-1")) == [holder.id, old]

    async def test_jobs_are_listed_by_the_time_of_their_enqueue(self, store: Store) -> None:
        (job_id,) = await enqueued(store, new_job(delay=7200))
        now = await now_of(store)
        expected = {
            JobFilter(since=now - HOUR): [job_id],
            JobFilter(until=now + HOUR): [job_id],
            JobFilter(since=now - HOUR, until=now + HOUR): [job_id],
            JobFilter(since=now + HOUR): [],
            JobFilter(until=now - HOUR): [],
        }
        for where, ids in expected.items():
            assert await self._listed(store, where) == ids, where

    # Attempts and logs

    async def test_an_unknown_job_has_neither_attempts_nor_a_log(self, store: Store) -> None:
        assert await store.attempts(new_id()) == []
        assert await store.log_of(new_id(), 10) == []

    async def test_a_log_is_cut_to_its_limit(self, store: Store) -> None:
        node, claim = await held(store)
        lines = [LogLine(claim.id, claim.fence, 1, "info", str(n)) for n in range(5)]
        await store.append_log(node, lines)
        messages = [int(each.message) for each in await store.log_of(claim.id, 3)]
        assert len(messages) == 3
        assert messages == sorted(messages), "the oldest first"

    async def test_a_log_line_has_the_time_of_the_store(self, store: Store) -> None:
        node, claim = await held(store)
        before = await now_of(store)
        await store.append_log(node, [LogLine(claim.id, claim.fence, 1, "error", "oh")])
        (entry,) = await store.log_of(claim.id, 10)
        assert before <= entry.at <= await now_of(store)
        assert (entry.level, entry.message) == ("error", "oh")

    # Queues

    async def test_queues_are_counted(self, store: Store) -> None:
        assert await store.queues() == []
        now = await now_of(store)
        node, claims = await held_many(store, 3)
        await store.finish_jobs(node, [completion(claims[0])])
        await enqueued(
            store,
            new_job(due_at=now - MINUTE),
            new_job(due_at=now - HOUR, needs=["gpu"]),
            new_job(delay=3600),
            new_job("mail", due_at=now - MINUTE),
        )
        await in_state(store, State.PAUSED, new_job("parked"))
        default, mail, other = await store.queues()
        assert default == QueueInfo("default", False, 3, 2, 2, now - HOUR, started=2)
        assert mail == QueueInfo("mail", False, 1, 1, 0, now - MINUTE, served=False)
        assert (other.name, other.pending, other.due, other.running) == ("parked", 0, 0, 0)
        assert other.paused_jobs == 1

    async def test_claims_that_have_not_begun_are_counted_apart(self, store: Store) -> None:
        """Else a queue whose jobs wait on a node looks as if they ran."""
        node, _ = await held_many(store, 3)
        other, _ = await held(store)
        for load, started in (
            ({}, 4),
            ({"running": 1, f"{UNSTARTED}default": 2, f"{UNSTARTED}mail": 5}, 2),
            ({f"{UNSTARTED}default": 1.0}, 3),
            ({f"{UNSTARTED}default": 9}, 0),
        ):
            await store.beat(node, HOUR, load)
            (queue,) = await store.queues()
            assert (queue.running, queue.started) == (4, started)
        await store.beat(node, HOUR, {f"{UNSTARTED}default": 2})
        await store.beat(other, HOUR, {f"{UNSTARTED}default": 1})
        assert [queue.started for queue in await store.queues()] == [1]

    async def test_jobs_behind_gates_are_counted_with_their_queue(self, store: Store) -> None:
        behind = new_job("mail", needs=["gpu"])
        for lane in ("mail~resource:smtp", "mail+gpu~rate:send#a~resource:smtp*2"):
            await enqueued(store, behind._replace(id=new_id(), lane=lane))
        await enqueued(store, new_job("mail"))
        (mail,) = await store.queues()
        assert (mail.name, mail.pending, mail.due) == ("mail", 3, 3)
        assert [found.lane for found in await store.look(["mail~resource:smtp"])]
        await store.pause_queue("mail")
        assert await store.look(["mail~resource:smtp"]) == []

    async def test_jobs_that_cannot_run_are_counted(self, store: Store) -> None:
        for state in (State.PAUSED, State.PAUSED, State.PENDING):
            await in_state(store, state, new_job(delay=3600))
        holding = await held(store)
        await settled(store, holding, parked(holding.claim, "unknown_task"))
        await enqueued(store, new_job("other"))
        default, other = await store.queues()
        assert (default.pending, default.paused_jobs, default.unknown) == (1, 2, 1)
        assert (other.name, other.due, other.paused_jobs, other.unknown) == ("other", 1, 0, 0)
        assert (default.served, other.served) == (True, False)
        await store.leave(holding.node)
        assert [queue.served for queue in await store.queues()] == [False, False]

    async def test_a_queue_is_scaled_for_all_nodes(self, store: Store) -> None:
        node = await joined(store)
        assert dict((await store.beat(node, HOUR)).slots) == {}
        await store.scale_queue("mail", 7)
        await store.scale_queue("mail", 5)
        assert dict((await store.beat(node, HOUR)).slots) == {"mail": 5}
        (queue,) = await store.queues()
        assert (queue.name, queue.slots, queue.paused) == ("mail", 5, False)
        await store.scale_queue("mail", None)
        assert dict((await store.beat(node, HOUR)).slots) == {}

    async def test_a_paused_queue_is_listed_without_jobs(self, store: Store) -> None:
        await store.pause_queue("mail")
        (found,) = await store.queues()
        assert found == QueueInfo("mail", True, 0, 0, 0, None, served=False)
        await store.resume_queue("mail")
        assert not any(each.paused for each in await store.queues())

    async def test_a_queue_without_live_jobs_is_not_listed(self, store: Store) -> None:
        node, claim = await held(store)
        assert [each.name for each in await store.queues()] == ["default"]
        await store.finish_jobs(node, [completion(claim)])
        assert await store.queues() == []

    async def test_a_future_job_is_pending_but_not_due(self, store: Store) -> None:
        (job_id,) = await enqueued(store, new_job(delay=timedelta(days=400).total_seconds()))
        (found,) = await store.queues()
        assert (found.pending, found.due) == (1, 0)
        await store.control_job(Verb.RESCHEDULE, job_id, Change(delay=timedelta(0)))
        (found,) = await store.queues()
        assert (found.pending, found.due) == (1, 1)

    async def test_a_claim_changes_the_counts(self, store: Store) -> None:
        await enqueued(store, *(new_job() for _ in range(3)))
        await claimed(store, await joined(store), limit=2)
        (found,) = await store.queues()
        assert (found.pending, found.due, found.running) == (1, 1, 2)
