"""What all promises together mean: any history leaves a store as it leaves the specification.

The other classes ask about one promise at a time. Here random histories are played on the store
and on `MemoryStore`, step by step, and every answer and the whole picture have to be the same.
"""

from collections.abc import Callable
from datetime import datetime, timedelta
from itertools import count
from typing import Any, Final
from uuid import UUID

from hypothesis import given
from hypothesis import strategies as st

from detent.errors import DetentError
from detent.model.job import Claim, JobFilter, Keys, NewJob, Settlement
from detent.model.retention import Action
from detent.model.state import TERMINAL, State, Verb
from detent.spi.nodes import NodeIdentity
from detent.spi.store import Change, Store
from detent.stores.memory import MemoryStore
from detent.testing.conformance.builders import (
    HOUR,
    MINUTE,
    canceled,
    failed,
    idempotent,
    new_job,
    node_identity,
    parked,
    prepared,
    prune_request,
    released,
    retried,
    settlement,
    unique,
)
from detent.testing.conformance.examples import FEW
from detent.testing.conformance.steps import Held, claimed, now_of

KEYS: Final[tuple[Keys | None, ...]] = (
    None,
    unique("a", "raise"),
    unique("a", "return"),
    unique("a", "replace"),
    unique("b", "replace"),
    idempotent("a"),
    idempotent("a", timedelta(0)),
    Keys(idempotency="b", unique="b", on_conflict="replace"),
)
ENDS: Final[tuple[Callable[[Claim], Settlement], ...]] = (
    lambda claim: settlement(claim, State.SUCCEEDED),
    failed,
    canceled,
    retried,
    lambda claim: retried(claim, delay=3600.0),
    released,
    parked,
)
CONTROLS: Final = (Verb.CANCEL, Verb.PAUSE, Verb.RESUME, Verb.RESCHEDULE, Verb.RETRY)
STEPS: Final = (
    "enqueue",
    "claim",
    "end",
    "control",
    "release",
    "join",
    "leave",
    "page",
    "delete",
    "prune",
)

#: What happens, and two numbers that choose whom it happens to, and how.
HISTORIES: Final = st.lists(
    st.tuples(st.sampled_from(STEPS), st.integers(0, 99), st.integers(0, 99)), max_size=30
)


class World:
    """One store and what its callers remember, playing a history."""

    def __init__(self, store: Store, nodes: list[NodeIdentity], jobs: list[NewJob]) -> None:
        self.store = store
        self._nodes = nodes
        self._jobs = jobs
        self._held: list[Held] = []

    async def enqueue(self, one: int, two: int) -> Any:
        """Enqueue the newest job."""
        job, keys = self._jobs[-1], KEYS[two % len(KEYS)]
        if keys is not None:
            return await self.store.enqueue_keyed(prepared(job, keys), keys)
        return await self.store.enqueue_jobs([job])

    async def claim(self, one: int, two: int) -> Any:
        """Let a node claim some jobs, and remember the claims for ever."""
        node = self._nodes[one % len(self._nodes)].incarnation
        claims = await claimed(self.store, node, limit=1 + two % 4)
        self._held += [Held(node, claim) for claim in claims]
        return [(claim.id, claim.attempt, claim.generation, claim.hooks) for claim in claims]

    async def end(self, one: int, two: int) -> Any:
        """End some claim, valid or long gone, in some way."""
        if not self._held:
            return None
        node, claim = self._held[one % len(self._held)]
        said = [ENDS[two % len(ENDS)](claim)]
        if claim.hooks:
            return await self.store.finish_hooked(node, said)
        return await self.store.settle_jobs(node, said)

    async def control(self, one: int, two: int) -> Any:
        """Let somebody use a verb on some job, whether it is allowed or not."""
        if not self._jobs:
            return None
        job = self._jobs[one % len(self._jobs)]
        change = Change(reason="enough", delay=HOUR if two > 50 else timedelta(0))
        return await self.store.control_job(CONTROLS[two % len(CONTROLS)], job.id, change)

    async def release(self, one: int, two: int) -> Any:
        """Give some claim back, valid or long gone."""
        if not self._held:
            return None
        node, claim = self._held[one % len(self._held)]
        return await self.store.release_claims(node, [(claim.id, claim.fence)])

    async def join(self, one: int, two: int) -> Any:
        """Let the newest node join."""
        await self.store.join(self._nodes[-1], HOUR)

    async def leave(self, one: int, two: int) -> Any:
        """Let a node drain or leave."""
        node = self._nodes[one % len(self._nodes)].incarnation
        await (self.store.drain(node) if two % 2 else self.store.leave(node))

    async def page(self, one: int, two: int) -> Any:
        """Let somebody use a verb on all jobs of a state; which go first is left open."""
        verb = (Verb.CANCEL, Verb.PAUSE, Verb.RESUME)[two % 3]
        where = JobFilter(states=(list(State)[one % len(State)],))
        return await self.store.control_page(verb, where, 100, Change(reason="all"))

    async def delete(self, one: int, two: int) -> Any:
        """Delete all jobs that ended in one way."""
        return await self.store.delete_page(JobFilter(states=(list(State)[one % len(State)],)), 100)

    async def prune(self, one: int, two: int) -> Any:
        """Let all jobs go that ended in one way, to the archive or for good."""
        action = Action.ARCHIVE if two % 2 else Action.DELETE
        page = await self.store.prune_jobs(
            prune_request(TERMINAL[one % len(TERMINAL)], action=action)
        )
        return page, await self.store.prune_keys(100), await self._archived()

    async def _archived(self) -> list[UUID]:
        return [info.id for info in await self.store.list_jobs(JobFilter(archived=True), 100)]

    async def picture(self) -> Any:
        """Return all that can be seen and does not depend on clocks and fences."""
        ids = [job.id for job in self._jobs]
        infos = await self.store.get_jobs(ids)
        return {
            "jobs": {info.id: self._seen(info) for info in infos},
            "tries": {
                info.id: [
                    (each.number, each.generation, each.kind, each.error)
                    for each in await self.store.attempts(info.id)
                ]
                for info in infos
            },
            "nodes": [
                (node.incarnation, node.state, await self._claims(node.incarnation))
                for node in await self.store.nodes()
            ],
            "queues": [each[:5] for each in await self.store.queues()],
            "ended": sorted(info.id for info in await self.store.ended(ids)),
        }

    def _seen(self, info: Any) -> Any:
        asked = info.cancel_requested and info.state is State.RUNNING
        return (
            (info.state, info.attempt, info.generation, info.crashes, info.node, asked),
            (info.result, info.error, info.reason, info.superseded_by),
        )

    async def _claims(self, node: UUID) -> Any:
        claims = sorted(job_id for job_id, _ in await self.store.claims_of(node))
        signals = await self.store.signals_for(node)
        return claims, [(signal.id, signal.kind, signal.reason) for signal in signals]


class HistoryConformance:
    """The store beside the specification."""

    @FEW
    @given(history=HISTORIES)
    async def test_any_history_leaves_the_store_as_it_leaves_the_specification(
        self, store: Store, history: list[tuple[str, int, int]]
    ) -> None:
        await self._empty(store)
        now = await now_of(store)
        nodes, jobs = [node_identity()], list[NewJob]()
        worlds = [World(each, nodes, jobs) for each in (MemoryStore(_ticking(now)), store)]
        for world in worlds:
            await world.join(0, 0)
        for step, one, two in history:
            if step == "enqueue":
                jobs.append(_job(now, len(jobs), one))
            elif step == "join":
                nodes.append(node_identity())
            expected, answer = [await _answer(getattr(world, step)(one, two)) for world in worlds]
            assert answer == expected, (step, one, two)
            expected, picture = [await world.picture() for world in worlds]
            assert picture == expected, (step, one, two)

    async def _empty(self, store: Store) -> None:
        """Take away what the example before has left: the store is one for all examples."""
        for node in await store.nodes():
            await store.release_claims(node.incarnation, await store.claims_of(node.incarnation))
            await store.leave(node.incarnation)
        while await store.control_page(Verb.CANCEL, JobFilter(), 100, Change()):
            pass
        for archived in (False, True):
            while await store.delete_page(JobFilter(archived=archived), 100):
                pass


def _ticking(start: datetime) -> Callable[[], datetime]:
    """Return a clock that moves with every look, so that no two things happen at once."""
    ticks = count()
    return lambda: start + timedelta(microseconds=next(ticks))


def _job(now: datetime, number: int, choice: int) -> NewJob:
    # All are due, in the order of their numbers within a priority, whatever the clocks say.
    return new_job(priority=choice % 5, due_at=now - HOUR + number * MINUTE / 10)


async def _answer(doing: Any) -> Any:
    """Return the answer, or the name of the refusal."""
    try:
        return await doing
    except DetentError as error:
        return type(error).__name__
