"""What people do with schedules: create, change, pause, fire by hand, look back and ahead."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any, Final, Unpack

from detent.config import SchedulesConfig
from detent.config.readers import check_label
from detent.editing import Edit, Workshop, edited
from detent.errors import ConfigError, Conflict, JobNotFound, ScheduleNotFound
from detent.firing_seal import FiringSeal
from detent.firings import fired_job, firing_of
from detent.handle import Job
from detent.jobs import Jobs
from detent.model.access import Action
from detent.model.gates import told_lanes
from detent.model.ownership import (
    FIELDS,
    NextSlot,
    changed,
    declared_anew,
    is_abandoned,
    is_spent,
    merged,
    times_of,
)
from detent.model.schedule import (
    FiredSlot,
    Overlap,
    Owner,
    PlannedSlot,
    Schedule,
    ScheduleInfo,
    SlotState,
)
from detent.model.triggers import Trigger, trigger_from
from detent.model.zones import INSTANT
from detent.protection import Protection
from detent.schedule_access import ScheduleViews, group_target, job_target, target_of
from detent.scheduling import (
    ScheduleSettings,
    call_of,
    make_schedule,
    read_parts,
    read_trigger,
)
from detent.slots import between, overlap_of, past_range, slots_with
from detent.spi.codec import Codec
from detent.spi.notifier import Hint, Notifier, ScheduleHint
from detent.spi.runtime import Runtime
from detent.spi.schedules import ScheduleStore
from detent.tasks import BoundCall, Task

TRIES: Final = 20
"""How often a change is made again because the schedule has just fired."""
PAGE: Final = 200
LEAST_GRACE: Final = SchedulesConfig().grace or timedelta(0)
"""How long code must have been away before what it declared may go, if it is kept for ever."""
DELETED: Final = "its schedule was deleted"


class Schedules(ScheduleViews):
    """All schedules of a store."""

    def __init__(
        self,
        store: ScheduleStore,
        *,
        jobs: Jobs,
        codec: Codec,
        runtime: Runtime,
        config: SchedulesConfig,
        notifier: Notifier | None = None,
        workshop: Workshop | None = None,
        protection: Protection | None = None,
    ) -> None:
        protection = protection or Protection()
        seal = FiringSeal(protection)
        if workshop is not None:
            seal = FiringSeal(protection, workshop.tasks, workshop.renew)
        super().__init__(store, protection, seal)
        self._jobs = jobs
        self._codec = codec
        self._runtime = runtime
        self._config = config
        self._notifier = notifier
        self._workshop = workshop

    # Changing

    async def create(
        self,
        name: str,
        trigger: str | timedelta | Trigger,
        task: str | Task[..., Any],
        *,
        timezone: str | None = None,
        **settings: Unpack[ScheduleSettings],
    ) -> ScheduleInfo:
        """Store a schedule that fires a task, and belongs to whoever runs the system, not to code.

        `trigger` is the text of a cron, a `timedelta`, or a trigger of `detent.triggers`.
        """
        check_label("schedule", name)
        call = self._call(name, task, settings)
        job = self._shop("create").prepare(call)
        when = read_trigger(name, trigger, timezone)
        parts = read_parts(name, settings)
        schedule = make_schedule(name, when, parts, firing_of(job), self._config)
        await self._protection.permit(Action.CREATE, target_of(schedule))
        slots, now = await slots_with(self._store, schedule), await self._now()
        info = ScheduleInfo(schedule, 0, self._first(schedule, slots, now))
        saved = await self._save(info, None)
        if saved is None:
            raise Conflict(None, "create", "there already", subject=f"schedule {name!r}")
        return saved

    async def update(
        self,
        name: str,
        trigger: str | timedelta | Trigger | None = None,
        *,
        timezone: str | None = None,
        revision: int | None = None,
        **changes: Unpack[ScheduleSettings],
    ) -> ScheduleInfo:
        """Change some fields of a schedule; all others stay, as does the zone of another cron.

        In a schedule that code declares, what was changed here stays so until `reset`, whatever
        code says. With `revision` the schedule must still be the one that was looked at, or the
        change is a `Conflict`.
        """
        edit = Edit(trigger, timezone, changes)
        if not edit.fields:
            raise ConfigError(f"schedule {name!r}: nothing to change; the fields are {_ALL}")
        for _ in range(TRIES):
            info = await self._stored(name, Action.RESCHEDULE)
            if revision is not None and info.revision != revision:
                state = f"at revision {info.revision}, not {revision}"
                raise Conflict(None, "update", state, subject=f"schedule {name!r}")
            wanted = await self._edited(info, edit)
            # Also as it will be: else jobs could be sent to where their sender may not.
            await self._protection.permit(Action.RESCHEDULE, target_of(wanted.schedule))
            saved = await self._save(wanted, info)
            if saved is not None:
                return saved
        raise _too_fast("update", name)

    async def reset(self, name: str, *fields: str) -> ScheduleInfo:
        """Give fields of a schedule back to the code that declares it: these, or all.

        They change at once if this app declares it, else when a running node looks next, within
        a minute or so.
        """
        for field in fields:
            if field not in FIELDS:
                raise ConfigError(f"schedule {name!r}: {field!r} is no field; they are {_ALL}")
        for _ in range(TRIES):
            info = await self._stored(name, Action.RESCHEDULE)
            if info.schedule.owner is not Owner.CODE:
                raise Conflict(None, "reset", "not declared in code", subject=f"schedule {name!r}")
            kept = tuple(name for name in info.edited if fields and name not in fields)
            wanted = await self._declared(replace(info, edited=kept, declared_at=None))
            saved = await self._save(wanted, info)
            if saved is not None:
                return saved
        raise _too_fast("reset", name)

    async def pause(self, name: str) -> None:
        """Let a schedule fire no more until it is resumed; jobs that are there go on."""
        await self._stored(name, Action.PAUSE)
        await self._store.pause_schedules(name=name)

    async def resume(self, name: str) -> None:
        """Let a schedule fire again; what it missed follows its misfire rule."""
        await self._stored(name, Action.RESUME)
        await self._store.resume_schedules(name=name)
        self._tell()

    async def pause_group(self, group: str) -> int:
        """Pause all schedules of a group, those that join it later too; return how many."""
        await self._protection.permit(Action.PAUSE, group_target(check_label("group", group)))
        return await self._store.pause_schedules(group=group)

    async def resume_group(self, group: str) -> int:
        """Let all schedules of a group fire again; return how many."""
        await self._protection.permit(Action.RESUME, group_target(check_label("group", group)))
        resumed = await self._store.resume_schedules(group=group)
        self._tell()
        return resumed

    async def delete(self, name: str, *, cancel_jobs: bool = False) -> int:
        """Remove a schedule, and cancel its jobs that have not ended if asked to; return how many.

        What became of its slots stays as history. A schedule that running code declares would
        come back: pause it instead, or remove it there.
        """
        info = await self._stored(name, Action.DELETE)
        now = await self._now()
        if info.schedule.owner is Owner.CODE and not is_abandoned(
            info, now, self._config.grace or LEAST_GRACE
        ):
            raise Conflict(
                None,
                "delete",
                "declared in code that runs; pause it, or remove it there",
                subject=f"schedule {name!r}",
            )
        if cancel_jobs:
            await self._permit_cancels(info.schedule)
        if not await self._store.delete_schedule(name):
            raise ScheduleNotFound(name)
        return await self._cancel_jobs(name) if cancel_jobs else 0

    # Firing by hand

    async def trigger_now(self, name: str) -> Job[Any]:
        """Fire a schedule once, now, also if it is paused; its next slot stays.

        Its overlap rule holds: with `skip`, a job of an earlier slot that lives is a `Conflict`.
        """
        info, now = await self._to_fire(name), await self._now()
        planned = await self._planned(info.schedule, now)
        while not (fired := await self._fire_now(info.schedule, planned)):
            # It is gone, or somebody else has fired it at this very moment.
            info = await self._to_fire(name)
            planned = await self._planned(info.schedule, planned.slot + INSTANT)
        if fired[0].job is None:
            raise Conflict(
                None,
                "trigger",
                "kept back by its overlap rule: a job of an earlier slot has not ended",
                subject=f"schedule {name!r}",
            )
        self._announce([planned], fired)
        return Job(fired[0].job, True, self._jobs, self._result_type(info.schedule))

    async def backfill(
        self,
        name: str,
        start: datetime,
        end: datetime,
        *,
        overlap: Overlap | str | None = None,
        limit: int = 1_000,
    ) -> Sequence[FiredSlot]:
        """Fire the slots from `start` (included) to `end` (left out) that were never fired.

        Slots that have a job stay as they are, as long as that is known (`[schedules] keep_slots`);
        those that were left out get one. The jobs run one after another, unless the schedule allows
        them to overlap or `overlap` says otherwise.
        More slots than `limit` are refused before the first is fired.
        """
        info = await self._to_fire(name)
        now = await self._now()
        first, last = past_range(name, start, end, now)
        slots = await slots_with(self._store, info.schedule)
        # Limits of the schedule's life do not count: whoever asks for the past means it.
        timeless = replace(info.schedule, start_at=None, end_at=None)
        wanted = between(timeless, slots, first, last, limit)
        chosen = overlap_of(info.schedule, overlap)
        fired: list[FiredSlot] = []
        for page in range(0, len(wanted), PAGE):
            chunk = wanted[page : page + PAGE]
            planned = [await self._planned(info.schedule, slot) for slot in chunk]
            written = await self._store.fire_slots(name, chosen, planned)
            self._announce(planned, written)
            fired += written
        return fired

    # Between these and the store

    async def _now(self) -> datetime:
        return (await self._store.due_schedules([], 0)).now

    def _tell(self) -> None:
        """Let nodes know that the first schedule may be due earlier than they thought."""
        if self._notifier is not None:
            self._notifier.publish([ScheduleHint()])

    def _announce(self, planned: Sequence[PlannedSlot], written: Sequence[FiredSlot]) -> None:
        """Tell of the jobs that were stored, and wake the nodes for them."""
        stored = {each.job for each in written}
        jobs = [slot.job for slot in planned if slot.job is not None and slot.job.id in stored]
        if self._workshop is not None:
            self._workshop.announce(jobs)
        elif self._notifier is not None:
            told = told_lanes({job.lane: None for job in jobs})
            self._notifier.publish([Hint(lane) for lane in told])

    async def _fire_now(self, schedule: Schedule, planned: PlannedSlot) -> Sequence[FiredSlot]:
        return await self._store.fire_slots(schedule.name, schedule.overlap, [planned])

    async def _planned(self, schedule: Schedule, slot: datetime) -> PlannedSlot:
        job = fired_job(schedule, slot, self._runtime.new_id())
        return PlannedSlot(slot, SlotState.FIRED, await self._seal.job(schedule.name, job))

    async def _to_fire(self, name: str) -> ScheduleInfo:
        """Return a schedule that may be fired by hand: whoever does it creates a job."""
        found = await self._store.get_schedules([check_label("schedule", name)])
        if not found:
            raise ScheduleNotFound(name)
        await self._protection.permit(Action.CREATE, job_target(found[0].schedule))
        return found[0]

    async def _save(self, wanted: ScheduleInfo, before: ScheduleInfo | None) -> ScheduleInfo | None:
        """Store a schedule as secretly as its jobs, and return it as it may be seen."""
        known = None if before is None else before.schedule
        kept = await self._seal.kept(wanted.schedule, known)
        expected = None if before is None else before.revision
        saved = await self._store.save_schedule(replace(wanted, schedule=kept), expected)
        if saved is None:
            return None
        self._tell()
        return await self._seal.shown(saved)

    def _result_type(self, schedule: Schedule) -> Any:
        task = self._workshop and self._workshop.tasks.find(schedule.firing.task)
        return task.signature.result_type if task else Any

    def _shop(self, verb: str) -> Workshop:
        if self._workshop is None:
            raise ConfigError(f"to {verb} this, the app that has the task is needed")
        return self._workshop

    def _call(
        self, name: str, task: str | Task[..., Any], settings: Mapping[str, Any]
    ) -> BoundCall[Any]:
        if not isinstance(task, str | Task):
            raise ConfigError(
                f"schedule {name!r}: task = {task!r}: must be a task of this app, or its name; "
                "other options for its jobs are said here"
            )
        known = self._shop("create").tasks.get(task if isinstance(task, str) else task.name)
        return call_of(name, known, settings)

    def _first(self, schedule: Schedule, slots: NextSlot, now: datetime) -> datetime:
        """Return the first slot of a schedule, which must have one to be of any use."""
        following = slots(schedule, now)
        if following is None:
            words = trigger_from(schedule.trigger).describe()
            raise ConfigError(
                f"schedule {schedule.name!r}: trigger = {words}: has no slot after "
                f"{now.isoformat(timespec='seconds')}, within start, end and calendars"
            )
        return following

    async def _edited(self, info: ScheduleInfo, edit: Edit) -> ScheduleInfo:
        """Return a schedule with an operator's edit, which must leave it something to fire."""
        wanted = edited(info.schedule, edit, self._codec, self._protection.limits, self._workshop)
        slots, now = await slots_with(self._store, wanted), await self._now()
        after = changed(info, wanted, now, slots)
        is_over = info.next_fire is None and times_of(wanted) == times_of(info.schedule)
        if after.next_fire is None and not is_over and not is_spent(after):
            self._first(wanted, slots, now)
        if info.schedule.owner is Owner.CODE:
            after = replace(after, edited=tuple(sorted({*info.edited, *edit.fields})))
        return after

    async def _declared(self, info: ScheduleInfo) -> ScheduleInfo:
        """Return a schedule as this app declares it, or as it is if it does not."""
        found = self._workshop and self._workshop.declared.find(info.schedule.name)
        if not self._workshop or not found:
            return info
        declared = found.schedule(self._workshop.prepare(found.call), self._config)
        wanted = merged(declared, info.schedule, info.edited)
        slots = await slots_with(self._store, wanted)
        now = await self._now()
        return replace(declared_anew(declared, info, now, slots), declared_at=now)

    async def _permit_cancels(self, schedule: Schedule) -> None:
        """Ask about all jobs that would be canceled before anything is done."""
        if self._protection.access is None:
            return
        for slot in await self._store.live_jobs_of(schedule.name):
            target = replace(job_target(schedule), id=slot.job)
            await self._protection.permit(Action.CANCEL, target)

    async def _cancel_jobs(self, name: str) -> int:
        canceled = 0
        # The last one first: who is canceled sets free the one that waits for it.
        for slot in reversed(await self._store.live_jobs_of(name)):
            if slot.job is not None:
                try:
                    await self._jobs.cancel(slot.job, reason=DELETED)
                except (Conflict, JobNotFound):
                    continue  # it has ended meanwhile
                canceled += 1
        return canceled


def _too_fast(verb: str, name: str) -> Conflict:
    return Conflict(None, verb, "changing too fast; try again", subject=f"schedule {name!r}")


_ALL: Final = ", ".join(FIELDS)
