"""The people of a simulation: one who enqueues, and one who interferes."""

import asyncio
import functools
import random
from collections.abc import Awaitable, Callable
from datetime import timedelta
from typing import Any
from uuid import UUID

from detent.app import App
from detent.errors import (
    BreakerNotFound,
    Conflict,
    JobNotFound,
    KeyMismatch,
    KeyTaken,
    NodeNotFound,
    StoreUnavailable,
)
from detent.model.job import Priority
from detent.model.state import State
from detent.stores.memory.nodes import DEAD
from detent.testing.simulation.cluster import World
from detent.testing.simulation.plan import OUTAGE
from detent.testing.simulation.service import SERVICE
from detent.testing.simulation.workload import KINDS, declare_stranger
from detent.testing.virtual import START, running_loop

ACCEPTED = (
    BreakerNotFound,
    Conflict,
    JobNotFound,
    KeyMismatch,
    KeyTaken,
    NodeNotFound,
    StoreUnavailable,
)
"""What may come of any request when others are at work too."""
TRIES = 5
"""How often somebody asks again who gave a key, so that it is safe to."""


class Producer:
    """Enqueues jobs of all kinds, with all kinds of options."""

    def __init__(self, world: World, app: App) -> None:
        fate = world.fate
        self._world = world
        self._app = app
        self._chance = random.Random(f"{fate.seed} producer")
        self._jobs = fate.jobs
        self._lease = fate.lease.total_seconds()
        self._pause = fate.lasts / fate.jobs
        self._kinds = [kind for kind in KINDS if kind.fault is None or kind.fault in fate]
        declare_stranger(app)
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
        (kind,) = chance.choices(self._kinds, [kind.weight for kind in self._kinds])
        options = self._options()
        arguments = kind.arguments(chance)
        if kind.in_leases:
            arguments = tuple(each * self._lease for each in arguments)
        call = self._app.tasks.get(kind.task).options(**options).bind(*arguments)
        for _ in range(TRIES if "key" in options else 1):
            try:
                job = await self._app.enqueue(call)
            except ACCEPTED as error:
                self._world.history.tell("client", f"{kind.task}: {type(error).__name__}")
                if not isinstance(error, StoreUnavailable):
                    return
                await asyncio.sleep(1.0)
            else:
                self.acknowledged.append(job.id)
                return

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

    def __init__(self, world: World, app: App, producer: Producer) -> None:
        self._world = world
        self._producer = producer
        self._chance = random.Random(f"{world.fate.seed} operator")
        self._jobs = app.jobs
        self._queues = app.queues
        self._nodes = app.nodes
        self._breakers = app.breakers
        self.lies = 0
        """How often he said of a node that it is gone."""

    async def run(self, until: float) -> None:
        """Interfere until that virtual second."""
        deeds: tuple[Callable[[], Awaitable[Any]], ...] = (
            self._cancel,
            self._cancel,
            self._cancel_as_seen,
            self._pause_queue,
            self._pause_job,
            self._retry,
            self._reschedule,
            self._drain_node,
        )
        if "lie" in self._world.fate:
            deeds += (self._forget_node, self._forget_node)
        if OUTAGE in self._world.fate:
            deeds += (self._open_breaker, self._reset_breaker)
        while running_loop().time() < until:
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

    async def _cancel_as_seen(self) -> None:
        """Cancel a job if it still is as it was when he looked."""
        seen = await self._jobs.get(self._some_job())
        await asyncio.sleep(self._chance.uniform(0.0, 2.0))
        await self._jobs.cancel(seen.id, expected=seen.state, generation=seen.generation)

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

    async def _drain_node(self) -> None:
        """Ask a node to end, rarely: whoever runs it starts another one."""
        nodes = await self._nodes.list()
        if len(nodes) > 1 and self._chance.random() < 0.3:
            await self._nodes.drain(self._chance.choice(nodes).incarnation)

    async def _forget_node(self) -> None:
        """Say of a node that it is gone, which may not be true."""
        nodes = [node for node in await self._nodes.list() if node.state != DEAD]
        if len(nodes) > 1:
            self.lies += 1
            await self._nodes.forget(self._chance.choice(nodes).incarnation)

    async def _open_breaker(self) -> None:
        lasting = timedelta(seconds=self._chance.uniform(0.5, 4.0))
        await self._breakers.open(SERVICE, lasting=lasting, reason="they move house")

    async def _reset_breaker(self) -> None:
        await self._breakers.reset(SERVICE)

    async def _reschedule(self) -> None:
        delay = timedelta(seconds=self._chance.uniform(0, 5))
        await self._jobs.reschedule(self._some_job(), delay=delay)
