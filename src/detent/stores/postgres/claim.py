"""Gives jobs to nodes."""

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from itertools import accumulate
from typing import Any, Final
from uuid import UUID

from asyncpg.pgproto import pgproto

from detent.model.job import LOWEST_ID, Claim, Position, Priority
from detent.spi.scans import LaneScan, by_queue
from detent.spi.store import ClaimRequest
from detent.stores.postgres.database import Database

_BEGINNING: Final = datetime.min.replace(tzinfo=UTC)
# As the driver makes ids of its own: it copies their bytes, and computes those of all others.
_LOWEST: Final[UUID] = pgproto.UUID(LOWEST_ID.bytes)
PRIORITIES: Final = len(Priority)
# Of more lanes than that a node learns by hints.
MOST_LANES: Final = 10_000


class Claiming:
    """The part of the store that `ClaimStore` describes."""

    database: Database

    async def claim_jobs(self, request: ClaimRequest) -> list[Claim]:
        """See `ClaimStore.claim_jobs`."""
        rows = await self.database.fetch("claim_jobs", *claim_arguments(request))
        return [Claim._make(row) for row in rows]

    async def look(self, lanes: Sequence[str]) -> list[Position]:
        """See `ClaimStore.look`."""
        rows = await self.database.fetch("look", list(lanes))
        return [Position._make(row) for row in rows]

    async def needy_lanes(self, queues: Sequence[str]) -> list[str]:
        """See `ClaimStore.needy_lanes`."""
        rows = await self.database.fetch("needy_lanes", list(queues), MOST_LANES)
        return [row["lane"] for row in rows]

    async def next_due(self, scans: Sequence[LaneScan]) -> Mapping[str, float]:
        """See `ClaimStore.next_due`."""
        lanes, queues, _rooms, due_at, ids = scan_columns(scans)
        rows = await self.database.fetch("next_due", lanes, queues, due_at, ids)
        return {queue: max(seconds, 0.0) for queue, seconds in rows}

    async def load_args(self, claims: Sequence[Claim]) -> Mapping[UUID, bytes]:
        """See `ClaimStore.load_args`."""
        rows = await self.database.fetch("load_args", [claim.id for claim in claims])
        return {row["id"]: row["args"] for row in rows}


def claim_arguments(request: ClaimRequest) -> tuple[Any, ...]:
    """Return what the statement `claim_jobs` takes."""
    lanes, _queues, _rooms, due_at, ids = scan_columns(request.scans)
    return (
        request.node,
        lanes,
        *queue_columns(request.scans),
        due_at,
        ids,
        request.limit,
        request.boost_interval.total_seconds(),
        request.inline_args,
    )


def queue_columns(scans: Sequence[LaneScan]) -> tuple[list[Any], ...]:
    """Return queues, their rooms, and the first and last of the heads of each, from 0.

    A head is one priority of one lane.
    """
    ends = list(accumulate(len(scans_of) * PRIORITIES for scans_of in by_queue(scans)))
    firsts = [scans_of[0] for scans_of in by_queue(scans)]
    return (
        [scan.queue for scan in firsts],
        [scan.room for scan in firsts],
        [0, *ends[:-1]],
        [end - 1 for end in ends],
    )


def scan_columns(scans: Sequence[LaneScan]) -> tuple[list[Any], ...]:
    """Return lanes, queues, rooms, and the floors of all lanes and priorities in two arrays."""
    floors = [floor for scan in scans for floor in scan.floors]
    return (
        [scan.lane for scan in scans],
        [scan.queue for scan in scans],
        [scan.room for scan in scans],
        [_BEGINNING if floor is None else floor.due_at for floor in floors],
        [_LOWEST if floor is None else floor.id for floor in floors],
    )
