"""Schedules and plans for tests: complete, with only what a test is about written there."""

from datetime import datetime, timedelta
from typing import Any, Final
from uuid import UUID

from detent.model.job import Hook, NewJob, lane_of
from detent.model.schedule import (
    FirePlan,
    Firing,
    Overlap,
    PlannedSlot,
    Schedule,
    ScheduleInfo,
    SlotState,
)
from detent.spi.store import Store
from detent.testing.conformance.builders import MINUTE, new_job
from detent.testing.conformance.steps import now_of

NAME: Final = "invoices"
TASK: Final = "shop.bill"
TRIGGER: Final = b'{"kind":"interval","every":60}'


def firing(**changes: Any) -> Firing:
    """Return what jobs are made from."""
    usual: dict[str, Any] = {
        "task": TASK,
        "queue": "default",
        "lane": lane_of("default"),
        "priority": 2,
        "args": b"[]",
        "codec": "json",
    }
    return Firing(**usual | changes)


async def scheduled(store: Store, name: str = NAME, **said: Any) -> ScheduleInfo:
    """Return a schedule that was due a minute ago, unless told otherwise; it is not saved."""
    of_firing = {key: said.pop(key) for key in ("task", "priority") if key in said}
    of_info = {key: said.pop(key) for key in ("next_fire", "paused_at", "runs") if key in said}
    of_info.setdefault("next_fire", await now_of(store) - MINUTE)
    schedule = Schedule(name=name, trigger=TRIGGER, firing=firing(**of_firing), **said)
    return ScheduleInfo(schedule=schedule, revision=0, **of_info)


async def saved(store: Store, name: str = NAME, **said: Any) -> ScheduleInfo:
    """Return a schedule that was saved."""
    info = await store.save_schedule(await scheduled(store, name, **said), None)
    assert info is not None, "a new name"
    return info


def slot_job(overlap: Overlap = Overlap.ALLOW, *, due_at: datetime | None = None) -> NewJob:
    """Return a job for a slot, with the hook that others need who may wait for it."""
    hooks = Hook.NONE if overlap is Overlap.ALLOW else Hook.SLOT
    return new_job(task=TASK, hooks=hooks, due_at=due_at)


def planned(
    slot: datetime, overlap: Overlap = Overlap.ALLOW, *, state: SlotState = SlotState.FIRED
) -> PlannedSlot:
    """Return a slot that gets a job, unless it is skipped."""
    job = slot_job(overlap) if state is SlotState.FIRED else None
    return PlannedSlot(slot, state, job)


def plan(
    info: ScheduleInfo,
    *slots: PlannedSlot,
    next_fire: datetime | None = None,
    problem: str | None = None,
) -> FirePlan:
    """Return what a node wants to write for a schedule it has seen."""
    schedule = info.schedule
    return FirePlan(
        name=schedule.name,
        revision=info.revision,
        slots=slots,
        overlap=schedule.overlap,
        next_fire=next_fire,
        problem=problem,
    )


class Clockwork:
    """A schedule that is fired again and again, each time for the next minute."""

    def __init__(self, store: Store, info: ScheduleInfo) -> None:
        assert info.next_fire is not None
        self.store = store
        self.info = info
        self.slot = info.next_fire

    async def fire(self, count: int = 1) -> list[UUID | None]:
        """Fire so many slots in one plan; return the jobs that they got."""
        overlap = self.info.schedule.overlap
        slots = []
        for _ in range(count):
            slots.append(planned(self.slot, overlap))
            self.slot += timedelta(minutes=1)
        fired = await self.store.fire([plan(self.info, *slots, next_fire=self.slot)])
        assert [each.slot for each in fired] == [each.slot for each in slots]
        (self.info,) = await self.store.get_schedules([self.info.schedule.name])
        return [each.job for each in fired]

    async def fire_one(self) -> UUID:
        """Fire a slot that has to get a job; return it."""
        (job,) = await self.fire()
        assert job is not None, "skipped"
        return job


async def clockwork(store: Store, overlap: Overlap, name: str = NAME) -> Clockwork:
    """Return a schedule with a rule for overlap, ready to be fired."""
    return Clockwork(store, await saved(store, name, overlap=overlap))
