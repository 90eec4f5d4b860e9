"""Lets ended jobs go whose time is over: found first, without a lock, and then taken in one go."""

from collections.abc import Sequence
from datetime import timedelta
from typing import Any, Final, NamedTuple
from uuid import UUID

from detent.errors import SchemaMismatch, StoreError, StoreUnavailable
from detent.model.state import State
from detent.spi.leadership import Term
from detent.spi.retention import Mark, PrunedPage, PruneRequest
from detent.stores.sqlite.columns import (
    micros_or_none,
    moment,
    packed,
    span,
    term_values,
    uuid,
    written,
)
from detent.stores.sqlite.control import forget
from detent.stores.sqlite.database import Database
from detent.stores.sqlite.session import Session
from detent.stores.sqlite.statements import sql

READ: Final = 10
"""How many ended jobs are looked at for each that may go: looking costs little."""
# Ids are made by the clocks of clients, which may be ahead by this much.
AHEAD: Final = timedelta(seconds=5)


class Old(NamedTuple):
    """An ended job whose time is over."""

    id: UUID
    generation: int
    finished_at: int
    archive: bool


class Retaining:
    """The part of the store that `RetentionStore` describes."""

    database: Database

    async def prune_jobs(self, request: PruneRequest) -> PrunedPage:
        """See `RetentionStore.prune_jobs`."""
        if request.rules.shortest is None:
            return PrunedPage()
        due, after = await self.database.read(lambda session: _look(session, request))
        page = await self._take(due, request.term)
        return page._replace(after=after)

    async def _take(self, due: Sequence[Old], term: Term | None) -> PrunedPage:
        """Take these jobs; one that cannot be taken does not keep the others."""
        if not due:
            return PrunedPage()
        ids = packed(old.id for old in due)
        said = written([(old.generation, int(old.archive)) for old in due])
        try:
            return await self.database.write(lambda session: _prune(session, ids, said, term))
        except (StoreUnavailable, SchemaMismatch):
            raise
        except StoreError as error:
            if len(due) == 1:
                return PrunedPage(problem=f"job {due[0].id} could not be pruned: {error}")
        middle = len(due) // 2
        one, two = await self._take(due[:middle], term), await self._take(due[middle:], term)
        return PrunedPage(
            one.deleted + two.deleted,
            one.archived + two.archived,
            problem=one.problem or two.problem,
        )

    async def prune_keys(self, limit: int, term: Term | None = None) -> int:
        """See `RetentionStore.prune_keys`."""
        asked = (limit, *term_values(term))
        return await self.database.write(
            lambda session: session.change(sql("prune_keys"), session.now, *asked)
        )

    async def prune_archive(self, keep: timedelta, limit: int, term: Term | None = None) -> int:
        """See `RetentionStore.prune_archive`."""
        asked = (limit, *term_values(term))
        return await self.database.write(
            lambda session: session.change(sql("prune_archive"), session.now - span(keep), *asked)
        )


def _look(session: Session, request: PruneRequest) -> tuple[list[Old], Mark | None]:
    """Return jobs whose time is over, and where the walk goes on, if it does."""
    limit = request.limit * READ
    rows = _seen(session, request, limit)
    due: list[Old] = []
    for job_id, generation, state, queue, finished_at in rows:
        rule = request.rules.of(queue)
        age = timedelta(microseconds=session.now - finished_at)
        if state == request.state and rule.due(age):
            due.append(Old(UUID(bytes=job_id), generation, finished_at, rule.archives))
            if len(due) == request.limit:
                return due, _mark(request.state, job_id, finished_at)
    if len(rows) < limit:
        return due, None
    job_id, *_, finished_at = rows[-1]
    return due, _mark(request.state, job_id, finished_at)


def _seen(session: Session, request: PruneRequest, limit: int) -> list[Any]:
    """Return the next ended jobs that are old enough for the shortest rule."""
    assert request.rules.shortest is not None
    latest = session.now - span(request.rules.shortest)
    after = request.after
    behind = bytes(16) if after is None else after.id.bytes
    if request.state is State.SUCCEEDED:
        made_before = max((latest + span(AHEAD)) // 1000, 0) << 80
        too_late = min(made_before, (1 << 128) - 1).to_bytes(16, "big")
        return session.rows(sql("old_jobs", "successes"), behind, too_late, limit)
    since = None if after is None else micros_or_none(after.finished_at)
    return session.rows(sql("old_jobs", "others"), request.state, since or 0, behind, latest, limit)


def _mark(state: State, job_id: bytes, finished_at: int) -> Mark:
    """Return the place of a job on the walk: by id among the successes, else by time."""
    return Mark(None if state is State.SUCCEEDED else moment(finished_at), UUID(bytes=job_id))


def _prune(session: Session, ids: bytes, said: str, term: Term | None) -> PrunedPage:
    session.change(sql("prune_jobs", "old"), ids, said, session.now, *term_values(term))
    session.change(sql("prune_jobs", "archived"), session.now)
    taken = session.table(sql("prune_jobs", "taken"))
    session.change(sql("prune_jobs", "clear"))
    forget(session, packed(uuid(job_id) for job_id, _ in taken))
    archived = sum(archive for _, archive in taken)
    return PrunedPage(len(taken) - archived, archived)
