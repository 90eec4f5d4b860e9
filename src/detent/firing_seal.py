"""Keeps what schedules make jobs from as secret as those jobs are, in the row of the schedule too.

A schedule has no job whose id its values could be bound to: they are bound to its name, opened
when it fires, and sealed anew for each job.
"""

from collections.abc import Callable
from dataclasses import replace

from detent.errors import (
    InvalidJob,
    KeyMissing,
    KeyUnavailable,
    SealBroken,
    SealError,
    SealTooNew,
)
from detent.model.envelope import is_sealed, place_of, read_envelope, shown_as
from detent.model.job import NewJob
from detent.model.schedule import Firing, Schedule, ScheduleInfo
from detent.protection import Protection
from detent.spi.sealing import Sealer, Surface
from detent.tasks import Registry


class FiringSeal:
    """Seals and opens the values of schedules; see `detent._engine.seal.Seal`.

    Without tasks, as for a command, those are sealed that were, and all if the settings say so.
    """

    def __init__(
        self,
        protection: Protection,
        tasks: Registry | None = None,
        renew: Callable[[NewJob], NewJob] = lambda job: job,
    ) -> None:
        self._protection = protection
        self._tasks = tasks
        self._renew = renew
        """What makes a job, once it is readable, as its task is declared now."""

    @property
    def active(self) -> bool:
        """Whether there are keys to seal with."""
        return self._protection.sealing is not None

    def hides(self, values: NewJob | Firing) -> bool:
        """Whether the values of a schedule, or of a job of one, are a secret."""
        if is_sealed(values.args) or is_sealed(values.params):
            return True
        return self._protection.sealing_for(self._encrypted(values.task)) is not None

    async def kept(self, schedule: Schedule, known: Schedule | None = None) -> Schedule:
        """Return a schedule as it may be stored.

        What stands in `known` stays if it says the same under the same key: an envelope is never
        the same twice, and a schedule must not look changed because of that.
        """
        firing = schedule.firing
        if is_sealed(firing.args) and (firing.params is None or is_sealed(firing.params)):
            return schedule
        was_sealed = is_sealed(firing.args) or is_sealed(firing.params)
        sealing = self._protection.sealing_for(self._encrypted(firing.task, was_sealed))
        if sealing is None:
            return schedule
        sealer, name = await sealing.sealer(), schedule.name
        before = (None, None) if known is None else (known.firing.args, known.firing.params)
        args = await self._envelope(sealer, Surface.SCHEDULE_ARGS, name, firing.args, before[0])
        params = firing.params and await self._envelope(
            sealer, Surface.SCHEDULE_PARAMS, name, firing.params, before[1]
        )
        return replace(schedule, firing=replace(firing, args=args, params=params))

    async def renewed(self, schedule: Schedule) -> Schedule:
        """Return a stored schedule as it would be stored now; one of an unknown task as it is."""
        if self._tasks is None or self._tasks.find(schedule.firing.task) is None:
            return schedule
        firing = await self._opened_firing(schedule.name, schedule.firing)
        return await self.kept(replace(schedule, firing=firing), schedule)

    async def job(self, name: str, job: NewJob) -> NewJob:
        """Return a job of the schedule of that name as it may be stored, or raise `SealError`."""
        was_sealed = is_sealed(job.args) or is_sealed(job.params)
        if was_sealed:
            job = job._replace(
                args=await self._opened(Surface.SCHEDULE_ARGS, name, job.args),
                params=job.params and await self._opened(Surface.SCHEDULE_PARAMS, name, job.params),
            )
        encrypted = self._encrypted(job.task, was_sealed)
        try:
            job = self._renew(job)
        except InvalidJob as error:
            if self._protection.sealing_for(encrypted) is None:
                raise
            # What its key function said may quote arguments, and is stored for all to read.
            raise InvalidJob(f"{error.path} of {job.task} makes no key", path=error.path) from None
        return await self._protection.sealed(job, encrypted)

    async def shown(self, info: ScheduleInfo) -> ScheduleInfo:
        """Return a schedule as it may be seen."""
        views, firing = self._protection.views, info.schedule.firing
        place = place_of(info.schedule.name)
        args = await views.shown(Surface.SCHEDULE_ARGS, place, firing.codec, firing.args)
        params = await views.shown(Surface.SCHEDULE_PARAMS, place, firing.codec, firing.params)
        if (args, params) == (firing.args, firing.params):
            return info
        firing = replace(firing, args=args or b"", params=params)
        return replace(info, schedule=replace(info.schedule, firing=firing))

    def _encrypted(self, task: str, was_sealed: bool = False) -> bool | None:
        known = None if self._tasks is None else self._tasks.find(task)
        if known is not None:
            return known.options_declared.encrypted
        return True if was_sealed else None

    async def _envelope(
        self, sealer: Sealer, surface: Surface, name: str, data: bytes, known: bytes | None
    ) -> bytes:
        if is_sealed(data):
            return data
        fresh = self._protection.seal(sealer, surface, place_of(name), data)
        return known if known and await self._says(known, surface, name, data, fresh) else fresh

    async def _says(
        self, known: bytes, surface: Surface, name: str, data: bytes, fresh: bytes
    ) -> bool:
        """Whether an envelope holds this, and was made as a fresh one is made."""
        if not is_sealed(known):
            return False
        try:
            is_alike = read_envelope(known).head == read_envelope(fresh).head
            return is_alike and await self._opened(surface, name, known) == data
        except (SealError, ValueError):
            return False

    async def _opened_firing(self, name: str, firing: Firing) -> Firing:
        return replace(
            firing,
            args=await self._opened(Surface.SCHEDULE_ARGS, name, firing.args),
            params=firing.params
            and await self._opened(Surface.SCHEDULE_PARAMS, name, firing.params),
        )

    async def _opened(self, surface: Surface, name: str, data: bytes) -> bytes:
        what = f"the {surface.removeprefix('schedule ')} of the schedule {name!r}"
        try:
            return await self._protection.views.opened(surface, place_of(name), data)
        except (KeyMissing, KeyUnavailable):
            raise
        except SealBroken as error:
            raise SealBroken(f"{what} were altered, or made for another place or key") from error
        except SealTooNew as error:
            raise SealTooNew(f"{what}: {shown_as(data)}") from error
        except SealError as error:
            raise SealError(f"{what}: {shown_as(data)}, and no keys are set here") from error
