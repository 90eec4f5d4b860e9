"""What a claim from a family tells the store, and what its rows mean."""

import json
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import Any, Final
from uuid import UUID

from detent.model.job import Claim
from detent.spi.limits import FamilyAnswer, FamilyRequest, Head, Refusal
from detent.spi.scans import Floor, LaneScan
from detent.stores.postgres.claim import PRIORITIES, scan_columns

_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)


def family_row(request: FamilyRequest) -> tuple[Any, ...]:
    """Return the parameters of the statement."""
    scan = LaneScan(request.family, request.queue, request.room, request.floors)
    *_, due_at, ids = scan_columns([scan])
    return (
        request.node,
        request.family,
        request.queue,
        request.room,
        request.walk,
        request.least,
        due_at,
        ids,
        list(request.without),
        request.boost_interval.total_seconds(),
        request.inline_args,
    )


def family_answer(rows: list[Any], walk: int) -> FamilyAnswer:
    """Return what the rows of the statement say."""
    why, *told = json.loads(rows.pop()["args"])
    if why is not None:
        return FamilyAnswer([], Refusal(why))
    seen, blocked, head, last, due_in, keys, floors, crowd = told
    return FamilyAnswer(
        [Claim._make(row) for row in rows],
        None,
        blocked,
        seen < walk,
        _head(head),
        _head(last),
        due_in,
        keys,
        _floors(floors or ()),
        crowd or (),
    )


def _head(told: tuple[int, float] | None) -> Head | None:
    return None if told is None else Head(*told)


def _floors(told: Sequence[tuple[int, int, str]]) -> list[Floor | None]:
    floors: list[Floor | None] = [None] * PRIORITIES
    for priority, due_at, job_id in told:
        floors[priority] = Floor(_EPOCH + timedelta(microseconds=due_at), UUID(job_id))
    return floors
