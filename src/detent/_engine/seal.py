"""Encrypts the jobs that schedules fire: only now do they have the ids that they are bound to."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Protocol

from detent.errors import DetentError, KeyUnavailable
from detent.model.job import NewJob
from detent.model.schedule import FirePlan, Firing, PlannedSlot, Schedule


class Seal(Protocol):
    """Seals and opens the values of schedules, where those of their task are encrypted."""

    @property
    def active(self) -> bool:
        """Whether there are keys to seal with."""

    def hides(self, values: NewJob | Firing) -> bool:
        """Whether the values of a schedule, or of a job of one, are a secret."""

    async def kept(self, schedule: Schedule, known: Schedule | None = None) -> Schedule:
        """Return a schedule as it may be stored; what `known` says already stays as it is there."""

    async def renewed(self, schedule: Schedule) -> Schedule:
        """Return a stored schedule as it would be stored now."""

    async def job(self, name: str, job: NewJob) -> NewJob:
        """Return a job of the schedule of that name as it may be stored."""


async def sealed_plans(
    plans: Sequence[FirePlan], seal: Seal
) -> tuple[list[FirePlan], dict[str, str]]:
    """Return the plans whose jobs can be stored, and what is wrong with the others, by name.

    Nobody waits for a schedule whose key cannot be had, and a provider that is away is asked once.
    """
    sealed: list[FirePlan] = []
    problems: dict[str, str] = {}
    away: KeyUnavailable | None = None
    for plan in plans:
        try:
            if away is not None and any(slot.job and seal.hides(slot.job) for slot in plan.slots):
                raise away
            slots = [await _sealed(plan.name, slot, seal) for slot in plan.slots]
            sealed.append(replace(plan, slots=slots))
        except DetentError as error:
            problems[plan.name] = str(error)
            away = error if isinstance(error, KeyUnavailable) else away
    return sealed, problems


async def _sealed(name: str, slot: PlannedSlot, seal: Seal) -> PlannedSlot:
    return slot if slot.job is None else slot._replace(job=await seal.job(name, slot.job))
