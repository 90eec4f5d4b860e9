"""If this fails, firing stands in a deadlock with the ends of jobs, or leaves some waiting.

Several firers, workers and somebody who cancels, all at once, on schedules whose jobs must not
overlap: every firing meets a job that is just being claimed, ended, canceled or woken.
"""

import asyncio
import random
from datetime import timedelta
from typing import Final
from uuid import UUID

from detent.errors import Conflict
from detent.model.schedule import FirePlan, Overlap, ScheduleInfo
from detent.model.state import State, Verb
from detent.spi.store import Change
from detent.stores.postgres import PostgresStore
from detent.testing.conformance.builders import settlement
from detent.testing.conformance.slots import TASK, plan, planned, saved
from detent.testing.conformance.steps import claimed, joined
from detent.testing.postgres import TemporaryPostgres
from tests.cluster.database import ServerLog

SCHEDULES: Final = 24
SLOTS: Final = 60
KINDS: Final = (Overlap.QUEUE, Overlap.REPLACE, Overlap.SKIP)
STEP: Final = timedelta(seconds=1)


class Stress:
    """Everybody who is at work."""

    def __init__(self, store: PostgresStore) -> None:
        self._store = store
        self._random = random.Random(7)
        self.fired: list[UUID] = []
        self.slots = 0
        self._over = False

    async def run(self) -> None:
        """Fire all slots of all schedules, and let everything come to an end."""
        for number in range(SCHEDULES):
            await saved(self._store, f"s{number:02}", overlap=KINDS[number % len(KINDS)])
        others = [asyncio.create_task(self._work()) for _ in range(3)]
        others.append(asyncio.create_task(self._cancel()))
        async with asyncio.timeout(90):
            await asyncio.gather(*(self._fire() for _ in range(4)))
            self._over = True
            await asyncio.gather(*others)

    async def _fire(self) -> None:
        while due := list((await self._store.due_schedules([TASK], SCHEDULES)).due):
            self._random.shuffle(due)
            for each in await self._store.fire([self._plan(info) for info in due[:16]]):
                self.slots += 1
                if each.job is not None:
                    self.fired.append(each.job)

    def _plan(self, info: ScheduleInfo) -> FirePlan:
        assert info.next_fire is not None
        following = info.next_fire + STEP if info.runs + 1 < SLOTS else None
        return plan(info, planned(info.next_fire, info.schedule.overlap), next_fire=following)

    async def _work(self) -> None:
        node = await joined(self._store)
        idle = 0
        while not self._over or idle < 3:
            claims = await claimed(self._store, node, limit=self._random.randint(1, 20))
            idle = 0 if claims else idle + 1
            self._random.shuffle(claims)
            ends = [settlement(claim, State.SUCCEEDED) for claim in claims]
            await self._store.finish_hooked(node, ends)

    async def _cancel(self) -> None:
        while not self._over:
            await asyncio.sleep(0)
            if self.fired:
                job = self._random.choice(self.fired[-30:])
                try:
                    await self._store.control_job(Verb.CANCEL, job, Change())
                except Conflict:
                    continue


async def test_firing_finishing_and_canceling_stand_in_nobodys_way(
    postgres_url: str, postgres_server: TemporaryPostgres
) -> None:
    log = ServerLog(postgres_server)
    store = PostgresStore(postgres_url)
    await store.open()
    try:
        stress = Stress(store)
        await stress.run()
        assert stress.slots == SCHEDULES * SLOTS
        states = [info.state for info in await store.get_jobs(stress.fired)]
        assert len(states) == len(stress.fired)
        left = [state for state in states if state not in (State.SUCCEEDED, State.CANCELED)]
        assert left == [], "nobody waits for ever"
        assert states.count(State.SUCCEEDED) > 100
    finally:
        await store.close()
    assert "deadlock detected" not in log.text()
