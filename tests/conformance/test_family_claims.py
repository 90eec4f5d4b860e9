"""If these fail, claims from families differ from what the specification gives in the same story.

One random story is played on all three stores: jobs of a few keys and a crowded one, plain jobs
beside them, priorities, retries, cancels, pauses and dead nodes, and claims of all kinds in turns.
"""

import random
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, Final
from uuid import UUID

import pytest

from detent.errors import Conflict
from detent.model.job import Claim, NewJob, Priority
from detent.model.limits import Limit
from detent.model.rescue import suspect_lane
from detent.model.state import Verb
from detent.spi.limits import FamilyAnswer
from detent.spi.store import Change, Store
from detent.stores.memory import MemoryStore
from detent.stores.postgres import PostgresStore
from detent.stores.sqlite import SqliteStore
from detent.testing.conformance.builders import HOUR, new_job, node_identity, released, retried
from detent.testing.conformance.families import LIMIT, NOTHING, gate, whole
from detent.testing.conformance.limits import asked, behind, finished, lane
from detent.testing.conformance.steps import claimed

SEEDS: Final = range(8)
STEPS: Final = 60
KEYS: Final = 12
CROWDED: Final = 0.2
PLAIN: Final = 0.2
QUEUE: Final = "default"
# Nobody's age changes while a story is played.
BOOST: Final = timedelta(days=400)
LONG_AGO: Final = datetime(2020, 1, 1, tzinfo=UTC)


@pytest.fixture
async def stores(emptied_postgres_url: str, tmp_path: Path) -> AsyncIterator[list[Store]]:
    """The specification first."""
    async with AsyncExitStack() as stack:
        opened: list[Store] = [MemoryStore()]
        for store in (PostgresStore(emptied_postgres_url), SqliteStore(str(tmp_path / "jobs.db"))):
            await store.open()
            stack.push_async_callback(store.close)
            opened.append(store)
        yield opened


class Story:
    """What happens, chosen by the specification's state and a seed, and done to all stores."""

    def __init__(self, stores: list[Store], seed: int) -> None:
        self.stores = stores
        self.random = random.Random(seed)
        self.concurrency = self.random.choice((1, 1, 2))
        self.ordered = self.concurrency == 1 and self.random.random() < 0.7
        self.node = UUID(int=0)
        self.held: dict[UUID, list[Claim]] = {}
        """By job the claims of all stores."""
        self.open: dict[UUID, NewJob] = {}
        """What has not ended."""
        self.put_back = self.ended = 0

    async def all(self, method: str, *args: Any, **options: Any) -> list[Any]:
        """Do the same to all stores; what they say or raise has to be the same."""
        said: list[Any] = []
        for store in self.stores:
            try:
                said.append(await getattr(store, method)(*args, **options))
            except Conflict:
                said.append(Conflict)
        return said

    async def begin(self) -> None:
        limit = Limit(LIMIT, self.concurrency, ordered=self.ordered)
        await self.all("declare_limits", [limit])
        await self.join()

    async def join(self) -> None:
        identity = node_identity()
        await self.all("join", identity, HOUR)
        self.node = identity.incarnation

    # What people do

    def job(self) -> NewJob:
        priority = self.random.choice(list(Priority))
        due_at = LONG_AGO + timedelta(seconds=self.random.randrange(10_000))
        drawn = self.random.random()
        if drawn < PLAIN:
            return new_job(priority=priority, due_at=due_at)
        key = 0 if drawn < PLAIN + CROWDED else self.random.randrange(1, KEYS)
        return behind(gate(str(key)), priority=priority, due_at=due_at)

    async def enqueue(self) -> None:
        jobs = [self.job() for _ in range(self.random.randrange(1, 25))]
        await self.all("enqueue_jobs", jobs)
        self.open |= {job.id: job for job in jobs}

    async def control(self) -> None:
        idle = [each for each in self.open if each not in self.held]
        if not idle:
            return
        verb = self.random.choice((Verb.CANCEL, Verb.PAUSE, Verb.RESUME, Verb.RESCHEDULE))
        delay = timedelta(0) if verb is Verb.RESCHEDULE else None
        job = self.random.choice(idle)
        first, *others = await self.all("control_job", verb, job, Change(delay=delay))
        assert others == [first, first], (verb, job)
        if verb is Verb.CANCEL and first is not Conflict:
            del self.open[job]

    async def pause(self) -> None:
        await self.all("pause_queue", QUEUE)
        await self.from_family()
        await self.from_lanes()
        await self.all("resume_queue", QUEUE)

    # What nodes do

    async def from_family(self) -> None:
        room = self.random.randrange(8)
        walk = self.random.choice((1, 5, 16, 40, 1_000))
        least = self.random.choice((0, 0, 0, *Priority))
        some = [lane(gate(str(key))) for key in range(KEYS)]
        without = self.random.sample(some, self.random.choice((0, 0, 1, 4)))
        floors = [NOTHING for _ in self.stores]
        for _ in range(self.random.choice((1, 1, 3))):
            answers = [
                await whole(
                    store,
                    self.node,
                    room=room,
                    walk=walk,
                    least=least,
                    floors=begin,
                    without=without,
                    boost=BOOST,
                )
                for store, begin in zip(self.stores, floors, strict=True)
            ]
            told = [what(answer) for answer in answers]
            assert told[1] == told[0]
            assert told[2] == told[0]
            floors = [answer.floors for answer in answers]
            self.take([answer.claims for answer in answers])

    async def from_lanes(self) -> None:
        keys = self.random.sample(range(KEYS), self.random.randrange(1, KEYS))
        lanes = [lane(gate(str(key))) for key in keys]
        lanes += [suspect_lane(each) for each in lanes]
        room = self.random.randrange(1, 4)
        least = self.random.choice((0, 0, 0, *Priority))
        answers = [
            await asked(store, self.node, *lanes, room=room, least=least, boost=BOOST)
            for store in self.stores
        ]
        told = [[(each.lane, each.taken) for each in answer.lanes] for answer in answers]
        assert told == [told[0]] * 3
        # Over all lanes of a claim there is no order.
        self.take([sorted(answer.claims) for answer in answers])

    async def from_plain(self) -> None:
        claims = [await claimed(store, self.node, boost_interval=BOOST) for store in self.stores]
        self.take(claims)

    def take(self, claims: list[list[Claim]]) -> None:
        ids = [[claim.id for claim in each] for each in claims]
        assert ids == [ids[0]] * 3
        for same in zip(*claims, strict=True):
            assert len({(each.lane, each.attempt, each.crashes) for each in same}) == 1
            assert same[0].id not in self.held
            self.held[same[0].id] = list(same)
        lanes = [claims[0].lane for claims in self.held.values()]
        keys = Counter(each.removesuffix("+!") for each in lanes if "~" in each)
        assert max(keys.values(), default=0) <= self.concurrency

    def some_held(self) -> list[UUID]:
        return self.random.sample(list(self.held), self.random.randrange(len(self.held) + 1))

    async def end(self) -> None:
        for job in self.some_held():
            await self.finish(job)

    async def finish(self, job: UUID) -> None:
        for store, claim in zip(self.stores, self.held.pop(job), strict=True):
            await finished(store, self.node, [claim])
        del self.open[job]
        self.ended += 1

    async def give_back(self) -> None:
        """Retry with and without a delay, or let go uncharged."""
        for job in self.some_held()[:4]:
            delay = self.random.choice((None, 0.0, 3_600.0))
            for store, claim in zip(self.stores, self.held.pop(job), strict=True):
                said = released(claim) if delay is None else retried(claim, delay)
                assert await store.settle_jobs(self.node, [said]) == [job]
            self.put_back += 1

    async def die(self) -> None:
        await self.all("declare_dead", [self.node], "it burned")
        await self.all("rescue", 1_000, 100)
        self.put_back += len(self.held)
        self.held.clear()
        await self.join()

    async def go_on(self) -> None:
        steps: dict[Callable[[], Awaitable[object]], float] = {
            self.enqueue: 3,
            self.control: 4,
            self.pause: 1,
            self.from_family: 6,
            self.from_lanes: 3,
            self.from_plain: 1,
            self.end: 5,
            self.give_back: 3,
            self.die: 0.5,
        }
        (step,) = self.random.choices(list(steps), list(steps.values()))
        await step()

    async def come_to_an_end(self) -> None:
        """Let all go on that was paused or put off, and run everything."""
        for job in self.open:
            if job not in self.held:
                await self.all("control_job", Verb.RESUME, job, Change())
                await self.all("control_job", Verb.RESCHEDULE, job, Change(delay=timedelta(0)))
        for _ in range(10 * len(self.open) + 10):
            for job in list(self.held):
                await self.finish(job)
            if not self.open:
                return
            await self.random.choice((self.from_plain, self.from_family, self.from_lanes))()
        raise AssertionError(f"{len(self.open)} jobs never run")


def what(answer: FamilyAnswer) -> object:
    """Return what all stores have to say, without their clocks."""
    if answer.refusal is not None:
        return answer.refusal
    return (
        [claim.id for claim in answer.claims],
        answer.blocked,
        answer.is_all,
        answer.head and answer.head.priority,
        None if answer.is_all or answer.last is None else answer.last.priority,
        answer.due_in is None,
        answer.keys,
        [floor and floor.id for floor in answer.floors],
        sorted(answer.crowd),
    )


@pytest.mark.parametrize("seed", SEEDS)
async def test_a_story_is_the_same_on_every_store(stores: list[Store], seed: int) -> None:
    story = Story(stores, seed)
    await story.begin()
    for _ in range(STEPS):
        await story.go_on()
    await story.come_to_an_end()
    assert story.ended > 0
    assert story.put_back > 0
