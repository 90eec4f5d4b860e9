"""The schedules of a simulation: one for each rule about overlap, every few seconds."""

import asyncio
import random
from datetime import timedelta
from typing import Final

from detent.errors import StoreUnavailable
from detent.model.job import lane_of
from detent.model.schedule import Firing, Misfire, Overlap, Schedule, ScheduleInfo
from detent.model.triggers import Interval, trigger_bytes
from detent.testing.simulation.cluster import World

GROUP: Final = "timetable"
# Slots that nobody fired in time are all made up for: so each of them must have its job.
CATCH_UP: Final = 10_000


class Timetable:
    """Makes the schedules, and lets them rest when the others do."""

    def __init__(self, world: World) -> None:
        self._world = world
        self._chance = random.Random(f"{world.fate.seed} timetable")

    async def begin(self) -> None:
        """Store them all; each fires from the next full second on."""
        kinds = list(Overlap)
        for number in range(self._world.fate.schedules):
            await _insist(self._world, self._schedule(number, kinds[number % len(kinds)]))

    def _schedule(self, number: int, overlap: Overlap) -> ScheduleInfo:
        chance, world = self._chance, self._world
        every = timedelta(seconds=chance.choice((1, 2, 3)))
        name = f"{overlap}{number}"
        world.checker.schedules.every[name] = every
        lasts = chance.uniform(0, 0.3) if overlap is Overlap.ALLOW else chance.uniform(0, 5)
        task, queue = ("quick" if overlap is Overlap.ALLOW else "slow"), "default"
        firing = Firing(
            task=task,
            queue=queue,
            lane=lane_of(queue),
            priority=chance.randrange(5),
            args=b'{"seconds":%.3f}' % lasts,
            codec="json",
        )
        schedule = Schedule(
            name=name,
            trigger=trigger_bytes(Interval(every)),
            firing=firing,
            group=GROUP,
            misfire=Misfire.CATCH_UP,
            catch_up_limit=CATCH_UP,
            misfire_threshold=timedelta(seconds=1),
            overlap=overlap,
            # A queue that grows faster than it is worked off would never come to rest.
            max_runs=5 if overlap is Overlap.QUEUE else None,
        )
        begin = world.store.clock().replace(microsecond=0)
        return ScheduleInfo(schedule, 0, begin + every)

    async def rest(self) -> None:
        """Let nothing fire any more, so that everything can come to an end."""
        while True:
            try:
                await self._world.store.pause_schedules(group=GROUP)
            except StoreUnavailable:
                await asyncio.sleep(1.0)
            else:
                return


async def _insist(world: World, info: ScheduleInfo) -> None:
    while True:
        try:
            await world.store.save_schedule(info, None)
        except StoreUnavailable:
            await asyncio.sleep(1.0)
        else:
            return
