"""Encrypts the jobs that schedules fire: only now do they have the ids that they are bound to."""

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import replace

from detent.model.job import NewJob
from detent.model.schedule import FirePlan, PlannedSlot
from detent.tasks import Registry

Seal = Callable[[NewJob, bool | None], Awaitable[NewJob]]
"""Returns a job with its values sealed, if those of a task declared like this are."""


async def sealed_plans(plans: Sequence[FirePlan], seal: Seal, registry: Registry) -> list[FirePlan]:
    """Return plans whose jobs can be stored; raise `KeyUnavailable` when there is no key now."""
    return [
        replace(plan, slots=[await _sealed(slot, seal, registry) for slot in plan.slots])
        for plan in plans
    ]


async def _sealed(slot: PlannedSlot, seal: Seal, registry: Registry) -> PlannedSlot:
    if slot.job is None:
        return slot
    task = registry.find(slot.job.task)
    encrypted = None if task is None else task.options_declared.encrypted
    return slot._replace(job=await seal(slot.job, encrypted))
