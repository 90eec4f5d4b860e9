"""Gives jobs to nodes."""

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Any, Final
from uuid import UUID

from detent.model.job import LOWEST_ID, Claim, Position
from detent.spi.scans import LaneScan
from detent.spi.store import ClaimRequest
from detent.stores.postgres.database import Database

_BEGINNING: Final = datetime.min.replace(tzinfo=UTC)


class Claiming:
    """The part of the store that `ClaimStore` describes."""

    database: Database

    async def claim_jobs(self, request: ClaimRequest) -> list[Claim]:
        """See `ClaimStore.claim_jobs`."""
        rows = await self.database.fetch(
            "claim_jobs",
            request.node,
            *scan_columns(request.scans),
            request.limit,
            request.boost_interval.total_seconds(),
            request.inline_args,
        )
        return [Claim._make(row) for row in rows]

    async def look(self, lanes: Sequence[str]) -> list[Position]:
        """See `ClaimStore.look`."""
        rows = await self.database.fetch("look", list(lanes))
        return [Position._make(row) for row in rows]

    async def next_due(self, scans: Sequence[LaneScan]) -> float | None:
        """See `ClaimStore.next_due`."""
        lanes, queues, _rooms, due_at, ids = scan_columns(scans)
        rows = await self.database.fetch("next_due", lanes, queues, due_at, ids)
        seconds: float | None = rows[0]["seconds"]
        return None if seconds is None else max(seconds, 0.0)

    async def load_args(self, claims: Sequence[Claim]) -> Mapping[UUID, bytes]:
        """See `ClaimStore.load_args`."""
        rows = await self.database.fetch("load_args", [claim.id for claim in claims])
        return {row["id"]: row["args"] for row in rows}


def scan_columns(scans: Sequence[LaneScan]) -> tuple[list[Any], ...]:
    """Return lanes, queues, rooms, and the floors of all lanes and priorities in two arrays."""
    floors = [floor for scan in scans for floor in scan.floors]
    return (
        [scan.lane for scan in scans],
        [scan.queue for scan in scans],
        [scan.room for scan in scans],
        [_BEGINNING if floor is None else floor.due_at for floor in floors],
        [LOWEST_ID if floor is None else floor.id for floor in floors],
    )
