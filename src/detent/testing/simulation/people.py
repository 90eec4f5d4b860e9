"""The people of a simulation: one who enqueues, one who interferes, and one who breaks things."""

import asyncio
import functools
import random
from collections.abc import Awaitable, Callable
from datetime import timedelta
from typing import Any
from uuid import UUID

from detent.app import App
from detent.errors import Conflict, JobNotFound, KeyTaken, StoreUnavailable
from detent.model.job import Priority
from detent.model.state import State
from detent.testing.simulation.cluster import Member, World
from detent.testing.simulation.workload import KINDS, declare_stranger
from detent.testing.virtual import START

ACCEPTED = (Conflict, JobNotFound, KeyTaken, StoreUnavailable)
"""What may come of any request when others are at work too."""


class Producer:
    """Enqueues jobs of all kinds, with all kinds of options."""

    def __init__(self, world: World, jobs: int, lasts: float) -> None:
        self._world = world
        self._chance = random.Random(f"{world.seed} producer")
        self._jobs = jobs
        self._pause = lasts / jobs
        self.app: App = world.app("client")
        declare_stranger(self.app)
        self.acknowledged: list[UUID] = []

    async def run(self) -> None:
        """Enqueue them all, alone and in bursts."""
        left = self._jobs
        while left > 0:
            burst = min(left, self._chance.choice((1, 1, 1, 2, 6)))
            await asyncio.gather(*(self._enqueue() for _ in range(burst)))
            left -= burst
            await asyncio.sleep(self._chance.uniform(0, 2 * self._pause * burst))

    async def _enqueue(self) -> None:
        chance = self._chance
        (kind,) = chance.choices(KINDS, [kind.weight for kind in KINDS])
        options = self._options()
        arguments = kind.arguments(chance)
        try:
            task = self.app.tasks.get(kind.task)
            job = await task.options(**options).enqueue(*arguments)
        except ACCEPTED as error:
            self._world.history.tell("client", f"{kind.task}: {type(error).__name__}")
            return
        self.acknowledged.append(job.id)

    def _options(self) -> dict[str, Any]:
        chance = self._chance
        options: dict[str, Any] = {
            "queue": chance.choice(("default", "default", "mail")),
            "priority": chance.choice(tuple(Priority)),
        }
        match chance.randrange(12):
            case 0 | 1:
                options["delay"] = timedelta(seconds=chance.uniform(0, 15))
            case 2:
                options["at"] = START - timedelta(seconds=chance.uniform(0, 1000))
            case 3 | 4:
                options["unique"] = f"user-{chance.randrange(4)}"
                options["on_conflict"] = chance.choice(("raise", "return", "replace", "replace"))
            case 5:
                options["key"] = f"order-{chance.randrange(4)}"
            case _:
                pass
        return options


class Operator:
    """Cancels, pauses, resumes, reschedules and retries whatever catches his eye."""

    def __init__(self, world: World, producer: Producer) -> None:
        self._world = world
        self._producer = producer
        self._chance = random.Random(f"{world.seed} operator")
        self._jobs = producer.app.jobs
        self._queues = producer.app.queues

    async def run(self, until: float) -> None:
        """Interfere until that virtual second."""
        deeds: tuple[Callable[[], Awaitable[Any]], ...] = (
            self._cancel,
            self._cancel,
            self._pause_queue,
            self._pause_job,
            self._retry,
            self._reschedule,
        )
        while asyncio.get_running_loop().time() < until:
            await asyncio.sleep(self._chance.uniform(0.3, 4.0))
            await self._try(self._chance.choice(deeds)())

    async def restore(self) -> None:
        """Take back what would keep jobs from ending."""
        for queue in await self._surely(self._queues.list):
            if queue.paused:
                await self._surely(functools.partial(self._queues.resume, queue.name))
        for job in await self._surely(lambda: self._jobs.list(state=State.PAUSED, limit=1000)):
            await self._try(self._jobs.resume(job.id))

    async def _try(self, deed: Awaitable[Any]) -> None:
        try:
            await deed
        except ACCEPTED as error:
            self._world.history.tell("operator", type(error).__name__)

    async def _surely(self, deed: Callable[[], Awaitable[Any]]) -> Any:
        while True:
            try:
                return await deed()
            except StoreUnavailable:
                await asyncio.sleep(0.5)

    def _some_job(self) -> UUID:
        """Return one that exists, most often a late one."""
        jobs = self._producer.acknowledged
        if not jobs:
            raise JobNotFound(UUID(int=0))
        return jobs[-min(int(self._chance.expovariate(0.1)) + 1, len(jobs))]

    async def _cancel(self) -> None:
        await self._jobs.cancel(self._some_job(), reason="no longer wanted")

    async def _pause_queue(self) -> None:
        queue = self._chance.choice(("default", "mail"))
        await self._queues.pause(queue)
        await asyncio.sleep(self._chance.uniform(0.1, 5.0))
        await self._queues.resume(queue)

    async def _pause_job(self) -> None:
        job_id = self._some_job()
        await self._jobs.pause(job_id)
        await asyncio.sleep(self._chance.uniform(0.1, 5.0))
        await self._jobs.resume(job_id)

    async def _retry(self) -> None:
        await self._jobs.retry(self._some_job())

    async def _reschedule(self) -> None:
        delay = timedelta(seconds=self._chance.uniform(0, 5))
        await self._jobs.reschedule(self._some_job(), delay=delay)


class Saboteur:
    """Cuts nodes off from their store, and restarts them in the middle of their work."""

    def __init__(self, world: World, members: list[Member]) -> None:
        self._world = world
        self._members = members
        self._chance = random.Random(f"{world.seed} saboteur")

    async def run(self, until: float) -> None:
        """Break things until that virtual second."""
        while asyncio.get_running_loop().time() < until:
            await asyncio.sleep(self._chance.uniform(2.0, 15.0))
            member = self._chance.choice(self._members)
            if self._chance.random() < 0.6:
                await self._cut(member)
            else:
                await self._restart(member)

    async def _cut(self, member: Member) -> None:
        name = member.name
        self._world.history.tell("saboteur", f"cuts {name} off")
        self._world.line.cut(name)
        await asyncio.sleep(self._chance.uniform(0.5, 25.0))
        self._world.line.heal(name)
        self._world.history.tell("saboteur", f"lets {name} back")

    async def _restart(self, member: Member) -> None:
        self._world.history.tell("saboteur", f"restarts {member.name}")
        await member.drain()
        await member.start()
