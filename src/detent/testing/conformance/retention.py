"""What `RetentionStore` promises: what has had its time goes, and nothing else does."""

import asyncio
from collections.abc import Mapping
from dataclasses import replace
from datetime import timedelta
from typing import Any
from uuid import UUID

import pytest

from detent.errors import Conflict, JobNotFound
from detent.model.job import Hook, JobFilter, LogLine
from detent.model.retention import Action, Rule
from detent.model.state import TERMINAL, State, Verb
from detent.spi.retention import PrunedPage
from detent.spi.store import Change, Store
from detent.testing.conformance.builders import (
    HOUR,
    canceled,
    completion,
    failed,
    idempotent,
    new_id,
    new_job,
    prune_request,
    settlement,
    unique,
)
from detent.testing.conformance.steps import (
    enqueued,
    held,
    held_many,
    in_state,
    info,
    place,
    settled,
    state_of,
    states_of,
    succession,
)

ALL = JobFilter()
ARCHIVED = JobFilter(archived=True)
ZERO = timedelta(0)


async def pruned(store: Store, **options: Any) -> list[PrunedPage]:
    """Walk over one state from the beginning to the end; return the pages."""
    pages: list[PrunedPage] = []
    after = None
    while True:
        page = await store.prune_jobs(prune_request(**options, after=after))
        pages.append(page)
        if page.after is None:
            return pages
        assert page.after != after, "the walk goes on"
        after = page.after


async def prune(store: Store, **options: Any) -> tuple[int, int]:
    """Walk over one state; return how many were deleted and how many archived."""
    pages = await pruned(store, **options)
    assert not any(page.busy or page.problem for page in pages), pages
    return sum(page.deleted for page in pages), sum(page.archived for page in pages)


class RetentionConformance:
    """Deletion by age, the archive, and expired keys."""

    async def _one_of_each(self, store: Store) -> dict[State, UUID]:
        return {state: await in_state(store, state, new_job(state)) for state in State}

    async def _succeeded(self, store: Store, count: int) -> list[UUID]:
        node, claims = await held_many(store, count)
        await store.finish_jobs(node, [completion(claim) for claim in claims])
        return sorted(claim.id for claim in claims)

    # Who goes

    @pytest.mark.parametrize("state", TERMINAL, ids=str)
    async def test_jobs_go_that_ended_in_the_state_long_ago(
        self, store: Store, state: State
    ) -> None:
        jobs = await self._one_of_each(store)
        assert await prune(store, state=state, keep=HOUR) == (0, 0)
        assert await prune(store, state=state, keep=None) == (0, 0)
        assert await prune(store, state=state) == (1, 0)
        gone = jobs.pop(state)
        assert await store.get_jobs([gone]) == []
        assert await states_of(store, list(jobs.values())) == list(jobs)
        assert await prune(store, state=state) == (0, 0)

    async def test_nothing_of_a_pruned_job_is_left(self, store: Store) -> None:
        holding = await held(store, keys=idempotent("order-1", ZERO))
        claim = holding.claim
        line = LogLine(claim.id, claim.fence, 1, "info", "hello")
        await store.append_log(holding.node, [line])
        await settled(store, holding, failed(claim))
        assert await prune(store, state=State.FAILED) == (1, 0)
        assert await store.get_jobs([claim.id]) == []
        assert await store.ended([claim.id]) == []
        assert await store.attempts(claim.id) == []
        assert await store.log_of(claim.id, 10) == []
        assert await store.list_jobs(ALL, 10) == []
        assert await store.list_jobs(ARCHIVED, 10) == []
        assert await store.prune_keys(10) == 0, "its expired key went with it"
        with pytest.raises(JobNotFound):
            await store.control_job(Verb.RETRY, claim.id, Change())

    async def test_queues_have_rules_of_their_own(self, store: Store) -> None:
        names = ("mail", "bulk", "audit", "default")
        jobs = {name: await in_state(store, State.SUCCEEDED, new_job(name)) for name in names}
        rules = {
            "mail": Rule(ZERO, Action.ARCHIVE),
            "bulk": Rule(ZERO, Action.DELETE),
            "audit": Rule(None),
        }
        assert await prune(store, keep=HOUR, queues=rules) == (1, 1)
        assert await self._places(store, jobs) == {"mail": "archive", "audit": "", "default": ""}
        assert await prune(store, queues=rules) == (1, 0)
        assert await self._places(store, jobs) == {"mail": "archive", "audit": ""}

    async def _places(self, store: Store, jobs: Mapping[str, UUID]) -> dict[str, str]:
        names = {job_id: name for name, job_id in jobs.items()}
        return {
            names[found.id]: "archive" if found.archived_at else ""
            for found in await store.get_jobs(list(names))
        }

    async def test_a_job_that_needs_something_has_the_rule_of_its_queue(self, store: Store) -> None:
        # A lane is not a queue.
        ids = await enqueued(store, new_job("mail", needs=["gpu"]))
        await store.control_job(Verb.CANCEL, ids[0], Change())
        assert await prune(store, state=State.CANCELED, queues={"mail": Rule(None)}) == (0, 0)
        rules = {"mail": Rule(ZERO)}
        assert await prune(store, state=State.CANCELED, keep=None, queues=rules) == (1, 0)

    # Who stays

    async def test_a_job_that_lives_again_stays(self, store: Store) -> None:
        job_id = await in_state(store, State.FAILED)
        await store.control_job(Verb.RETRY, job_id, Change())
        assert await prune(store, state=State.FAILED) == (0, 0)
        assert await state_of(store, job_id) is State.PENDING
        assert [each.kind for each in await store.attempts(job_id)] == ["failed"]

    async def test_a_job_and_its_retry_are_never_both_accepted(self, store: Store) -> None:
        node, claims = await held_many(store, 20)
        await store.settle_jobs(node, [failed(claim) for claim in claims])
        retries = [store.control_job(Verb.RETRY, claim.id, Change()) for claim in claims]
        walk = pruned(store, state=State.FAILED, limit=4)
        answers, _ = await asyncio.gather(asyncio.gather(*retries, return_exceptions=True), walk)
        for claim, answer in zip(claims, answers, strict=True):
            if isinstance(answer, JobNotFound):
                assert await store.get_jobs([claim.id]) == []
            else:
                assert answer is State.PENDING, answer
                assert (await info(store, claim.id)).generation == 2

    async def test_a_job_stays_as_long_as_its_idempotency_key_leads_to_it(
        self, store: Store
    ) -> None:
        job_id = await in_state(store, State.SUCCEEDED, keys=idempotent("order-1", HOUR))
        assert await prune(store) == (0, 0)
        placed = await place(store, new_job(), idempotent("order-1"))
        assert (placed.id, placed.created) == (job_id, False)

    async def test_a_key_that_passed_to_another_job_keeps_nobody(self, store: Store) -> None:
        await in_state(store, State.SUCCEEDED, keys=idempotent("order-1", ZERO))
        new = new_job()
        assert (await place(store, new, idempotent("order-1"))).created
        assert await prune(store) == (1, 0)
        placed = await place(store, new_job(), idempotent("order-1"))
        assert (placed.id, placed.created) == (new.id, False), "its key is still its own"

    async def test_a_business_key_keeps_nobody(self, store: Store) -> None:
        await in_state(store, State.FAILED, keys=unique("user-1"))
        holder = new_job(delay=3600)
        await place(store, holder, unique("user-1"))
        assert await prune(store, state=State.FAILED) == (1, 0)
        told = await place(store, new_job(), unique("user-1", "return"))
        assert (told.id, told.created) == (holder.id, False)

    async def test_a_part_of_a_flow_stays(self, store: Store) -> None:
        holding = await held(store, new_job(hooks=Hook.FLOW))
        await settled(store, holding, settlement(holding.claim, State.SUCCEEDED))
        assert await prune(store) == (0, 0)
        assert await state_of(store, holding.claim.id) is State.SUCCEEDED

    # Pages

    @pytest.mark.parametrize("state", [State.SUCCEEDED, State.FAILED], ids=str)
    async def test_a_walk_sees_everything_in_pages(self, store: Store, state: State) -> None:
        node, claims = await held_many(store, 7)
        said = [settlement(claim, state) for claim in claims]
        await store.settle_jobs(node, said)
        pages = await pruned(store, state=state, limit=3)
        assert sum(page.deleted for page in pages) == 7
        assert all(page.deleted <= 3 for page in pages)
        assert await store.list_jobs(ALL, 10) == []

    @pytest.mark.parametrize("state", [State.SUCCEEDED, State.CANCELED], ids=str)
    async def test_a_walk_steps_over_what_stays(self, store: Store, state: State) -> None:
        # Far more than any page reads, before, between and behind those that are to go.
        gone = []
        for _ in range(3):
            kept = new_job("audit"), *(new_job("audit") for _ in range(39))
            due = new_job("mail")
            gone.append(due.id)
            await self._ended(store, state, *kept, due)
        rules = {"mail": Rule(ZERO)}
        assert await prune(store, state=state, keep=HOUR, queues=rules, limit=2) == (3, 0)
        assert await store.get_jobs(gone) == []
        assert len(await store.list_jobs(JobFilter(queue="audit"), 200)) == 120

    async def _ended(self, store: Store, state: State, *jobs: Any) -> None:
        if state is State.CANCELED:
            await store.enqueue_jobs(jobs)
            for job in jobs:
                await store.control_job(Verb.CANCEL, job.id, Change())
            return
        for job in jobs:
            await in_state(store, state, job)

    async def test_a_page_is_bounded_and_the_next_goes_on(self, store: Store) -> None:
        ids = await self._succeeded(store, 5)
        old, term = await succession(store)
        none = await store.prune_jobs(replace(prune_request(limit=2), term=old))
        assert (none.deleted, none.archived) == (0, 0), "an old term writes nothing"
        first = await store.prune_jobs(replace(prune_request(limit=2), term=term))
        assert (first.deleted, first.archived) == (2, 0)
        assert first.after is not None
        left = [found.id for found in await store.get_jobs(ids)]
        assert left == ids[2:], "the oldest go first"
        rest = await store.prune_jobs(prune_request(limit=10, after=first.after))
        assert (rest.deleted, rest.after) == (3, None)

    async def test_several_at_once_take_each_job_once(self, store: Store) -> None:
        await self._succeeded(store, 40)
        walks = await asyncio.gather(*(pruned(store, limit=5) for _ in range(4)))
        taken = sum(page.deleted for walk in walks for page in walk)
        # One may have stepped back for another; what it left is found by the next walk.
        assert taken + (await prune(store))[0] == 40
        assert await store.list_jobs(ALL, 10) == []

    # The archive

    @pytest.mark.parametrize("state", TERMINAL, ids=str)
    async def test_an_archived_job_keeps_its_values(self, store: Store, state: State) -> None:
        job = new_job("mail", task="shop.crunch", priority=4, args=b"[7]", tags=["vip", "b"])
        job = job._replace(codec="other", params=b"{}", options=b'{"timeout":5.0}')
        job_id = await in_state(store, state, job, unique("user-1"))
        before = await info(store, job_id)
        assert await prune(store, state=state, action=Action.ARCHIVE) == (0, 1)
        after = await info(store, job_id)
        assert after.archived_at is not None
        assert replace(after, archived_at=None) == before
        assert await store.ended([job_id]) == [after]
        assert await store.attempts(job_id) == []

    async def test_archived_jobs_are_a_list_of_their_own(self, store: Store) -> None:
        jobs = {name: await in_state(store, State.FAILED, new_job(name)) for name in ("a", "b")}
        other = await in_state(store, State.CANCELED, new_job("c", tags=["vip"]))
        live = await in_state(store, State.SUCCEEDED)
        for state in (State.FAILED, State.CANCELED):
            await prune(store, state=state, action=Action.ARCHIVE)
        expected = {
            ALL: [live],
            ARCHIVED: [other, jobs["b"], jobs["a"]],
            JobFilter(queue="a", archived=True): [jobs["a"]],
            JobFilter(states=(State.FAILED,), archived=True): [jobs["b"], jobs["a"]],
            JobFilter(states=(State.FAILED,)): [],
            JobFilter(tag="vip", archived=True): [other],
            JobFilter(task="nobody", archived=True): [],
        }
        for where, ids in expected.items():
            assert [found.id for found in await store.list_jobs(where, 10)] == ids, where
        page = await store.list_jobs(ARCHIVED, 2)
        rest = await store.list_jobs(ARCHIVED, 2, page[-1].id)
        assert [found.id for found in [*page, *rest]] == expected[ARCHIVED]

    async def test_an_archived_job_is_found_by_its_keys(self, store: Store) -> None:
        old = await in_state(store, State.FAILED, keys=unique("user-1"))
        await prune(store, state=State.FAILED, action=Action.ARCHIVE)
        assert [found.id for found in await store.list_jobs(JobFilter(key="user-1"), 9)] == []
        where = JobFilter(key="user-1", archived=True)
        assert [found.id for found in await store.list_jobs(where, 9)] == [old]

    @pytest.mark.parametrize("verb", [Verb.RETRY, Verb.CANCEL, Verb.PAUSE], ids=str)
    async def test_an_archived_job_cannot_be_moved(self, store: Store, verb: Verb) -> None:
        job_id = await in_state(store, State.FAILED)
        await prune(store, state=State.FAILED, action=Action.ARCHIVE)
        with pytest.raises(Conflict, match=f"cannot {verb} job {job_id}: it is archived"):
            await store.control_job(verb, job_id, Change())
        assert await store.control_page(verb, ARCHIVED, 10, Change()) == 0
        assert await store.control_page(verb, ALL, 10, Change()) == 0

    async def test_archived_jobs_can_be_deleted(self, store: Store) -> None:
        ids = [await in_state(store, State.FAILED) for _ in range(3)]
        await prune(store, state=State.FAILED, action=Action.ARCHIVE)
        assert await store.delete_page(ALL, 10) == 0
        assert await store.delete_jobs([ids[1], new_id()]) == [ids[1]]
        assert await store.delete_page(ARCHIVED, 1) == 1
        assert await store.delete_page(ARCHIVED, 10) == 1
        assert await store.get_jobs(ids) == []

    async def test_the_archive_is_pruned_too(self, store: Store) -> None:
        ids = [await in_state(store, State.CANCELED) for _ in range(5)]
        await prune(store, state=State.CANCELED, action=Action.ARCHIVE)
        assert await store.prune_archive(HOUR, 10) == 0
        assert len(await store.get_jobs(ids)) == 5
        old, term = await succession(store)
        assert await store.prune_archive(ZERO, 2, old) == 0, "an old term writes nothing"
        assert [await store.prune_archive(ZERO, 2, term) for _ in range(4)] == [2, 2, 1, 0]
        assert await store.get_jobs(ids) == []

    # Keys

    async def test_expired_keys_go_whatever_their_job_does(self, store: Store) -> None:
        for number in range(5):
            await place(store, new_job(), idempotent(f"old-{number}", ZERO))
        kept = new_job()
        await place(store, kept, idempotent("new", HOUR))
        await place(store, new_job(), unique("user-1"))
        old, term = await succession(store)
        assert await store.prune_keys(2, old) == 0, "an old term writes nothing"
        assert [await store.prune_keys(2, term) for _ in range(4)] == [2, 2, 1, 0]
        placed = await place(store, new_job(), idempotent("new"))
        assert (placed.id, placed.created) == (kept.id, False)
        assert (await place(store, new_job(), unique("user-1"))).taken_key == "user-1"

    async def test_an_end_after_the_others_is_seen_by_the_next_walk(self, store: Store) -> None:
        """A job that waited for long has an old id and a young end."""
        late = new_job("late", delay=3600)
        await store.enqueue_jobs([late])
        await self._succeeded(store, 3)
        assert await prune(store) == (3, 0)
        await store.control_job(Verb.RESCHEDULE, late.id, Change(delay=ZERO))
        assert await prune(store) == (0, 0)
        await store.control_job(Verb.CANCEL, late.id, Change())
        assert await prune(store, state=State.CANCELED, keep=HOUR) == (0, 0)
        assert await prune(store, state=State.CANCELED) == (1, 0)

    async def test_a_canceled_run_goes_like_any_other(self, store: Store) -> None:
        holding = await held(store)
        await settled(store, holding, canceled(holding.claim))
        assert await prune(store, state=State.CANCELED) == (1, 0)
