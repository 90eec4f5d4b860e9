"""An operator's edit of a schedule: what it changes, and what comes of it."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import timedelta
from typing import Any, Final

from detent.config import LimitsConfig
from detent.errors import ConfigError
from detent.firings import edited_firing
from detent.model.job import NewJob, needs_of
from detent.model.schedule import Firing, Schedule
from detent.model.triggers import Trigger, trigger_bytes
from detent.scheduling import (
    Declarations,
    call_arguments,
    checked,
    in_zone,
    read_parts,
    read_trigger,
    zone_in,
)
from detent.spi.codec import Codec
from detent.tasks import BoundCall, Registry

PLACING: Final = frozenset(("queue", "needs", "tags", "args", "kwargs"))
"""What decides about the lane of a job: some of it may be keys of limits and queues."""


@dataclass(frozen=True, slots=True)
class Edit:
    """What is to be different from now on."""

    trigger: str | timedelta | Trigger | None
    timezone: str | None
    changes: Mapping[str, Any]

    @property
    def fields(self) -> Sequence[str]:
        """The names of the fields that it is about."""
        names = ["args" if name == "kwargs" else name for name in self.changes]
        if self.trigger is not None or self.timezone is not None:
            names.append("trigger")
        return list(dict.fromkeys(names))


@dataclass(frozen=True, slots=True)
class Workshop:
    """What turns a call into a job: an app has one, a mere look into a store has not."""

    tasks: Registry
    prepare: Callable[[BoundCall[Any]], NewJob]
    declared: Declarations
    renew: Callable[[NewJob], NewJob]
    """What makes a job of a schedule as its task is declared now."""
    lane_now: Callable[[Firing], str | None]
    """Where such a job would stand; None if that cannot be told here."""
    announce: Callable[[Sequence[NewJob]], None]
    """What tells listeners and nodes of jobs that were stored."""


def edited(
    schedule: Schedule, edit: Edit, codec: Codec, limits: LimitsConfig, workshop: Workshop | None
) -> Schedule:
    """Return a schedule after an edit, or raise `ConfigError`."""
    name, changes = schedule.name, edit.changes
    parts = read_parts(name, changes)
    if edit.trigger is not None:
        zone = edit.timezone
        if isinstance(edit.trigger, str) and zone is None:
            # What is not named stays: 09:00 in Tokyo becomes 10:00 in Tokyo.
            zone = zone_in(schedule.trigger)
        parts["trigger"] = trigger_bytes(read_trigger(name, edit.trigger, zone))
    elif edit.timezone is not None:
        parts["trigger"] = trigger_bytes(in_zone(name, schedule.trigger, edit.timezone))
    try:
        firing = edited_firing(schedule.firing, changes, codec, limits)
    except ConfigError as error:
        raise ConfigError(f"schedule {name!r}: {error}") from error
    if "args" in changes or "kwargs" in changes:
        if workshop is None:
            raise ConfigError(
                f"schedule {name!r}: args: only the app that has the task {firing.task!r} can "
                "check them"
            )
        args, kwargs = call_arguments(name, changes)
        task = workshop.tasks.get(firing.task)
        there = task.options(queue=firing.queue, needs=needs_of(firing.lane))
        job = workshop.prepare(there.bind(*args, **kwargs))
        firing = replace(firing, args=job.args, codec=job.codec)
    if changes.get("params") and firing.codec != codec.name:
        raise ConfigError(
            f"schedule {name!r}: params: its jobs are encoded with {firing.codec!r}, here that is "
            f"{codec.name!r}; give args too, where the app is"
        )
    if workshop is not None and not PLACING.isdisjoint(changes):
        firing = replace(firing, lane=workshop.lane_now(firing) or firing.lane)
    return checked(replace(schedule, firing=firing, **parts))
