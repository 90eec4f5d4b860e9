"""What a schedule makes its jobs from, and the jobs that it makes."""

from collections.abc import Mapping
from dataclasses import replace
from datetime import datetime
from typing import Any
from uuid import UUID

import msgspec

from detent.attached import checked_tags, encoded_params
from detent.config import LimitsConfig, check_name
from detent.due import as_timeout
from detent.model.gates import behind
from detent.model.job import Hook, NewJob, lane_of, needs_of
from detent.model.schedule import Firing, Overlap, Schedule
from detent.options import StoredOptions, read_options, write_options
from detent.spi.codec import Codec
from detent.tasks import CallOptions, as_names, as_priority, as_tags


def firing_of(job: NewJob) -> Firing:
    """Return what a schedule needs to know of a job to fire more like it."""
    return Firing(
        task=job.task,
        queue=job.queue,
        lane=job.lane,
        priority=job.priority,
        args=job.args,
        codec=job.codec,
        options=job.options,
        params=job.params,
        tags=tuple(job.tags or ()),
        principal=job.principal,
    )


def fired_job(
    schedule: Schedule,
    slot: datetime,
    job_id: UUID,
    *,
    overlap: Overlap | None = None,
    due_at: datetime | None = None,
) -> NewJob:
    """Return the job that a schedule fires for a slot, due at once unless told otherwise.

    Where overlap is allowed, nobody ever waits for its end, and so its end can be a short one.
    """
    firing = schedule.firing
    stored = StoredOptions() if firing.options is None else read_options(firing.options)
    stored.schedule, stored.slot = schedule.name, slot
    hooks = Hook.NONE if overlap is Overlap.ALLOW else Hook.SLOT
    if stored.sinks:
        hooks |= Hook.EVENT
    return NewJob(
        id=job_id,
        task=firing.task,
        queue=firing.queue,
        lane=firing.lane,
        priority=firing.priority,
        delay=0.0 if due_at is None else None,
        due_at=due_at,
        args=firing.args,
        codec=firing.codec,
        options=msgspec.json.encode(stored),
        params=firing.params,
        tags=list(firing.tags) or None,
        hooks=int(hooks),
        principal=firing.principal,
        trace=None,
    )


def edited_firing(
    firing: Firing, changes: Mapping[str, Any], codec: Codec, limits: LimitsConfig
) -> Firing:
    """Return what a schedule makes jobs from, with other options for its jobs."""
    options = CallOptions(
        timeout=as_timeout(changes.get("timeout")),
        retry=changes.get("retry"),
        params=changes.get("params"),
    )
    parts: dict[str, Any] = {}
    if "queue" in changes or "needs" in changes:
        queue = check_name("queue", changes.get("queue", firing.queue))
        needs = needs_of(firing.lane)
        if "needs" in changes:
            needs = as_names("needs", changes["needs"])
        parts |= {"queue": queue, "lane": behind(lane_of(queue, needs), firing.lane)}
    if "priority" in changes:
        parts["priority"] = int(as_priority(changes["priority"]))
    if "tags" in changes:
        parts["tags"] = tuple(checked_tags(as_tags(changes["tags"]), limits) or ())
    if "params" in changes:
        parts["params"] = encoded_params(changes["params"], codec, limits)
    if "timeout" in changes or "retry" in changes:
        parts["options"] = edited_options(firing.options, options, changes)
    return replace(firing, **parts)


def edited_options(
    stored: bytes | None, wanted: CallOptions, changes: Mapping[str, Any]
) -> bytes | None:
    """Return stored options with another timeout, another retry policy, or both."""
    before = read_options(stored) if stored is not None else StoredOptions()
    said = write_options(wanted.timeout, wanted.retry)
    after = read_options(said) if said is not None else StoredOptions()
    if "timeout" in changes:
        before.timeout = after.timeout
    if "retry" in changes:
        before.retry = after.retry
    return None if before == StoredOptions() else msgspec.json.encode(before)
