"""Lets ended jobs go whose time is over: found first, without locks, and then taken in one go."""

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import Any, Final

from detent.errors import SchemaMismatch, StoreError, StoreUnavailable
from detent.model.job import LOWEST_ID
from detent.model.retention import Rule
from detent.model.state import State
from detent.spi.leadership import NO_TERM, Term
from detent.spi.retention import Mark, PrunedPage, PruneRequest
from detent.stores.postgres.database import Database

_BEGINNING: Final = Mark(datetime(1, 1, 1, tzinfo=UTC), LOWEST_ID)
READ: Final = 10
"""How many ended jobs are looked at for each that may go: looking costs little."""


class Retaining:
    """The part of the store that `RetentionStore` describes."""

    database: Database

    async def prune_jobs(self, request: PruneRequest) -> PrunedPage:
        """See `RetentionStore.prune_jobs`."""
        if request.rules.shortest is None:
            return PrunedPage()
        rows = await self.database.fetch("old_jobs", *_asked(request))
        due = [row for row in rows if row["generation"] is not None]
        read = [row for row in rows if row["generation"] is None]
        # With as many as were asked for, the walk goes on behind them; else behind all it has read.
        ends = due if len(due) >= request.limit else read
        last = max((_mark(row, request.state) for row in ends), default=None)
        page = await self._take(sorted(due, key=lambda row: row["id"]), request.term)
        return page._replace(after=last)

    async def _take(self, due: Sequence[Any], term: Term | None) -> PrunedPage:
        """Take these jobs; one that cannot be taken does not keep the others."""
        if not due:
            return PrunedPage()
        columns = [[row[name] for row in due] for name in ("id", "generation", "archive")]
        turn = f"detent prune {self.database.address.schema}"
        by = term or NO_TERM
        try:
            (taken,) = await self.database.fetch("prune_jobs", *columns, turn, *by)
        except (StoreUnavailable, SchemaMismatch):
            raise
        except StoreError as error:
            if len(due) == 1:
                return PrunedPage(problem=f"job {due[0]['id']} could not be pruned: {error}")
        else:
            return PrunedPage(taken["deleted"], taken["archived"], busy=not taken["mine"])
        middle = len(due) // 2
        one, two = await self._take(due[:middle], term), await self._take(due[middle:], term)
        return PrunedPage(
            one.deleted + two.deleted,
            one.archived + two.archived,
            busy=one.busy or two.busy,
            problem=one.problem or two.problem,
        )

    async def prune_keys(self, limit: int, term: Term | None = None) -> int:
        """See `RetentionStore.prune_keys`."""
        return len(await self.database.fetch("prune_keys", limit, *(term or NO_TERM)))

    async def prune_archive(self, keep: timedelta, limit: int, term: Term | None = None) -> int:
        """See `RetentionStore.prune_archive`."""
        asked = (keep.total_seconds(), limit, *(term or NO_TERM))
        return len(await self.database.fetch("prune_archive", *asked))


def _asked(request: PruneRequest) -> list[Any]:
    """Return the arguments of the look."""
    rules, after = request.rules, request.after or _BEGINNING
    assert rules.shortest is not None
    return [
        request.state,
        after.finished_at or _BEGINNING.finished_at,
        after.id,
        rules.shortest.total_seconds(),
        _seconds(rules.usual),
        rules.usual.archives,
        list(rules.queues),
        [_seconds(rule) for rule in rules.queues.values()],
        [rule.archives for rule in rules.queues.values()],
        request.limit,
        request.limit * READ,
    ]


def _seconds(rule: Rule) -> float | None:
    return None if rule.keep is None else rule.keep.total_seconds()


def _mark(row: Any, state: State) -> Mark:
    """Return the place of a row on the walk: by id among the successes, else by time."""
    if state is State.SUCCEEDED:
        return Mark(_BEGINNING.finished_at, row["id"])
    return Mark(row["finished_at"], row["id"])
