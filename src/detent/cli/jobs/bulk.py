"""Changes all jobs that match a filter, a page at a time, and shows how far it is."""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final
from uuid import UUID

from detent.cli.output import progress
from detent.cli.session import Session
from detent.errors import Conflict, JobNotFound, KeyTaken
from detent.jobs import MAX_REASON, PAGE
from detent.model.job import JobFilter, JobInfo
from detent.model.state import Verb
from detent.model.text import storable
from detent.spi.store import Change

COUNTED: Final = 10_000
AT_ONCE: Final = 8


@dataclass(slots=True)
class Changed:
    """What came of it: how many, which of those that were named, and which not and why."""

    count: int = 0
    states: dict[UUID, str] = field(default_factory=dict)
    refused: dict[UUID, str] = field(default_factory=dict)


async def count(session: Session, where: JobFilter) -> tuple[int, bool]:
    """Return how many jobs match, and whether there are more than somebody would count."""
    total, before = 0, None
    while page := await session.store.list_jobs(where, PAGE, before):
        total += len(page)
        if total >= COUNTED:
            return COUNTED, True
        before = page[-1].id
    return total, False


async def change_all(
    session: Session, verb: str, where: JobFilter, reason: str | None, total: int | None
) -> Changed:
    """Apply a verb to all that match."""
    with progress(f"{verb}…", total) as advance:
        if verb == "retry":
            return await _retry_all(session, where, advance)
        changed = Changed()
        while moved := await _page(session, verb, where, reason):
            changed.count += moved
            advance(moved)
    return changed


async def _page(session: Session, verb: str, where: JobFilter, reason: str | None) -> int:
    if verb == "delete":
        return await session.store.delete_page(where, PAGE)
    change = Change(reason=None if reason is None else storable(reason, MAX_REASON))
    return await session.store.control_page(Verb(verb), where, PAGE, change)


async def _retry_all(session: Session, where: JobFilter, advance: Callable[[int], None]) -> Changed:
    """Retry each job once.

    Not by pages of the store: a job that fails again while this goes on would match again, and
    again, and keep the older ones from their turn.
    """
    changed, before = Changed(), None
    while page := await session.store.list_jobs(where, PAGE, before):
        before = page[-1].id
        for start in range(0, len(page), AT_ONCE):
            group = page[start : start + AT_ONCE]
            await asyncio.gather(*(_retry(session, job, changed) for job in group))
            advance(len(group))
    return changed


async def _retry(session: Session, job: JobInfo, changed: Changed) -> None:
    try:
        # As it was listed: what happened to it since is not undone.
        await session.jobs.retry(job.id, expected=job.state, generation=job.generation)
    except (Conflict, JobNotFound):
        return
    except KeyTaken as error:
        changed.refused[job.id] = str(error)
    else:
        changed.count += 1
