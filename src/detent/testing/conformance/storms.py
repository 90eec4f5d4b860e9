"""What is left when many do many things at once: every job can end, and every key comes free."""

import asyncio
from collections.abc import Coroutine
from random import Random
from typing import Any, Final
from uuid import UUID

import pytest

from detent.errors import Conflict, JobNotFound, KeyTaken
from detent.model.job import Claim, JobFilter
from detent.model.state import LIVE, State, Verb
from detent.spi.store import Change, Store
from detent.testing.conformance.builders import (
    canceled,
    failed,
    new_job,
    released,
    retried,
    settlement,
    unique,
)
from detent.testing.conformance.steps import claimed, joined, place

KEYS: Final = ("user-1", "user-2")
ENDS: Final = (
    lambda claim: settlement(claim, State.SUCCEEDED),
    failed,
    canceled,
    retried,
    released,
)
VERBS: Final = (Verb.CANCEL, Verb.CANCEL, Verb.PAUSE, Verb.RESUME, Verb.RESCHEDULE, Verb.RETRY)
ROUNDS: Final = 12
TOGETHER: Final = 8


class Storm:
    """Callers that know of each other's jobs and claims, but not of each other's timing."""

    def __init__(self, store: Store, nodes: list[UUID], random: Random) -> None:
        self._store = store
        self._nodes = nodes
        self._random = random
        self._jobs: list[UUID] = []
        self._claims: list[tuple[UUID, Claim]] = []

    def anything(self) -> Coroutine[Any, Any, Any]:
        """Return something to do."""
        choices = [self._enqueue, self._claim, self._claim]
        if self._jobs:
            choices += [self._control]
        if self._claims:
            choices += [self._end, self._end, self._release]
        return self._random.choice(choices)()

    def _enqueue(self) -> Coroutine[Any, Any, Any]:
        job = new_job()
        self._jobs.append(job.id)
        on_conflict = self._random.choice(["raise", "return", "replace", "replace"])
        return place(self._store, job, unique(self._random.choice(KEYS), on_conflict))

    async def _claim(self) -> None:
        node = self._random.choice(self._nodes)
        claims = await claimed(self._store, node, limit=2)
        self._claims += [(node, claim) for claim in claims]

    def _end(self) -> Coroutine[Any, Any, Any]:
        node, claim = self._random.choice(self._claims[-6:])
        return self._store.finish_hooked(node, [self._random.choice(ENDS)(claim)])

    def _release(self) -> Coroutine[Any, Any, Any]:
        node, claim = self._random.choice(self._claims[-6:])
        return self._store.release_claims(node, [(claim.id, claim.fence)])

    async def _control(self) -> None:
        job_id = self._random.choice(self._jobs[-6:])
        try:
            await self._store.control_job(self._random.choice(VERBS), job_id, Change())
        except (Conflict, JobNotFound, KeyTaken):
            return  # somebody was faster, and it was said


class StormConformance:
    """Keys, replacements and controls under everything that can happen beside them."""

    @pytest.mark.parametrize("seed", range(4))
    async def test_after_a_storm_every_job_can_end_and_every_key_is_free(
        self, store: Store, seed: int
    ) -> None:
        random = Random(seed)
        nodes = [await joined(store) for _ in range(3)]
        storm = Storm(store, nodes, random)
        for _ in range(ROUNDS):
            await asyncio.gather(*(storm.anything() for _ in range(TOGETHER)))
            await self._expect_one_holder(store)
        await self._calm(store, nodes)
        live = await store.list_jobs(JobFilter(states=LIVE), 100)
        assert [(found.id, found.state, found.reason) for found in live] == []
        for key in KEYS:
            placed = await place(store, new_job(), unique(key))
            assert placed.created, f"{key} is still held by {await store.get_jobs([placed.id])}"

    async def _expect_one_holder(self, store: Store) -> None:
        """Of the jobs of one key only one may run or be about to; others wait behind it."""
        for key in KEYS:
            jobs = await store.list_jobs(JobFilter(states=LIVE, key=key), 100)
            active = [found for found in jobs if found.state is not State.WAITING]
            assert len(active) <= 1, [(found.id, found.state) for found in jobs]
            assert len(jobs) - len(active) <= 1, [(found.id, found.state) for found in jobs]

    async def _calm(self, store: Store, nodes: list[UUID]) -> None:
        """Let everything come to its end in the ordinary ways."""
        for node in nodes:
            await store.release_claims(node, await store.claims_of(node))
        while await store.control_page(Verb.RESUME, JobFilter(), 100, Change()):
            pass
        while claims := await claimed(store, nodes[0]):
            said = [settlement(claim, State.SUCCEEDED) for claim in claims]
            await store.finish_hooked(nodes[0], said)
