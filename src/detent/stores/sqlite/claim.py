"""Gives jobs to nodes."""

from collections.abc import Mapping, Sequence
from typing import Any, Final
from uuid import UUID

from detent.model.job import Claim, Position
from detent.spi.scans import Floor, LaneScan, by_queue
from detent.spi.store import ClaimRequest
from detent.stores.sqlite.columns import (
    MICROSECONDS,
    NO_ID,
    data,
    micros,
    moment,
    packed,
    span,
    uuid,
    written,
)
from detent.stores.sqlite.database import Database
from detent.stores.sqlite.orders import AfterCommit
from detent.stores.sqlite.session import Session
from detent.stores.sqlite.statements import sql

# No floor hides what became due this recently: a caller's transaction may commit a little late.
LATE: Final = MICROSECONDS
# Of more lanes than that a node learns by hints.
MOST_LANES: Final = 10_000
# Below every due time there is.
BEGINNING: Final = -(1 << 62)


class Claiming:
    """The part of the store that `ClaimStore` describes."""

    database: Database

    async def claim_jobs(self, request: ClaimRequest) -> list[Claim]:
        """See `ClaimStore.claim_jobs`."""
        claiming = _Claiming(request)
        taken = await self.database.write(claiming.take, first=claiming.nothing_due)
        return [claim_from(row) for row in taken]

    async def look(self, lanes: Sequence[str]) -> list[Position]:
        """See `ClaimStore.look`."""
        asked = written(list(lanes))
        rows = await self.database.read(
            lambda session: session.rows(sql("look"), asked, session.now)
        )
        return [
            Position(lane, priority, moment(due_at), UUID(bytes=job_id))
            for lane, priority, due_at, job_id in rows
        ]

    async def needy_lanes(self, queues: Sequence[str]) -> list[str]:
        """See `ClaimStore.needy_lanes`."""
        ranges = written([(f"{queue}+", f"{queue},") for queue in queues])
        rows = await self.database.read(
            lambda session: session.rows(sql("needy_lanes"), ranges, MOST_LANES)
        )
        return [lane for (lane,) in rows]

    async def next_due(self, scans: Sequence[LaneScan]) -> Mapping[str, float]:
        """See `ClaimStore.next_due`."""

        def work(session: Session) -> Mapping[str, float]:
            begins = [
                (scan.lane, scan.queue, [begin_at(floor, session.now)[0] for floor in scan.floors])
                for scan in scans
            ]
            ids = b"".join([begin_at(floor, 0)[1] for scan in scans for floor in scan.floors])
            rows = session.rows(sql("next_due"), written(begins), ids)
            return {queue: max(due - session.now, 0) / MICROSECONDS for queue, due in rows}

        return await self.database.read(work)

    async def load_args(self, claims: Sequence[Claim]) -> Mapping[UUID, bytes]:
        """See `ClaimStore.load_args`."""
        ids = packed(claim.id for claim in claims)
        rows = await self.database.read(lambda session: session.rows(sql("load_args"), ids))
        return {UUID(bytes=job_id): args for job_id, args in rows}


class _Claiming:
    """One claim: asked without a lock, and taken with it if there is something to take."""

    def __init__(self, request: ClaimRequest) -> None:
        self._request = request
        self._node = request.node.bytes
        self._boost = span(request.boost_interval)
        self._due: list[int] = []
        """The numbers of the lanes that have something for this node."""

    def nothing_due(self, session: Session) -> list[Any] | None:
        """Return an empty answer when there is nothing to take."""
        request = self._request
        if request.limit > 0:
            lanes = written([(scan.lane, scan.queue) for scan in request.scans])
            self._due = session.table(sql("claim_jobs", "due"), self._node, lanes, session.now)
        return None if self._due else []

    def take(self, session: Session) -> list[Any] | AfterCommit:
        """Move the best due jobs to running, queue by queue, under one new fence."""
        fence = session.value(sql("claim_jobs", "fence"))
        left = self._request.limit
        for scans in by_queue([self._request.scans[number] for number in self._due]):
            if (room := min(scans[0].room, left)) > 0:
                left -= self._take_from_queue(session, scans, room, fence)
        if left == self._request.limit:
            return []
        session.change(sql("claim_jobs", "fenced"), fence)
        session.change(sql("claim_jobs", "running"), fence, self._node, session.now)
        session.change(sql("claim_jobs", "gone"), fence)
        return AfterCommit(lambda session: self._read(session, fence))

    def _take_from_queue(
        self, session: Session, scans: Sequence[LaneScan], room: int, fence: int
    ) -> int:
        """Take the best of all lanes of one queue; return how many."""
        if len(scans) == 1:
            return self._take_from(session, scans[0], room, fence)
        first = session.value(sql("claim_jobs", "first"))
        taken = sum([self._take_from(session, scan, room, fence) for scan in scans])
        if taken > room:
            taken -= session.change(
                sql("claim_jobs", "rest"), first, session.now, self._boost, room
            )
        return taken

    def _take_from(self, session: Session, scan: LaneScan, room: int, fence: int) -> int:
        return session.change(
            sql("claim_jobs", "heads"),
            fence,
            scan.lane,
            session.now,
            room,
            self._boost,
            *[part for floor in scan.floors for part in begin_at(floor, session.now)],
            self._node,
            scan.queue,
            0,
            0,
        )

    def _read(self, session: Session, fence: int) -> list[Any]:
        inline = self._request.inline_args
        taken = session.table(sql("claim_jobs", "taken"), fence, inline, session.now, self._boost)
        session.change(sql("claim_jobs", "clear"), fence)
        return taken


def begin_at(floor: Floor | None, now: int) -> tuple[int, bytes]:
    """Return where a scan begins."""
    if floor is None:
        return BEGINNING, NO_ID
    return min(micros(floor.due_at), now - LATE), floor.id.bytes


def move_taken(session: Session, fence: int, node: bytes, inline: int, boost: int) -> list[Any]:
    """Move what was taken under a fence to running; return what is needed to run it."""
    session.change(sql("claim_jobs", "fenced"), fence)
    session.change(sql("claim_jobs", "running"), fence, node, session.now)
    session.change(sql("claim_jobs", "gone"), fence)
    taken = session.table(sql("claim_jobs", "taken"), fence, inline, session.now, boost)
    session.change(sql("claim_jobs", "clear"), fence)
    return taken


def claim_from(row: list[Any]) -> Claim:
    job_id, fence, task, lane, priority, due_at, *counts, args, codec, options, params, tags = row
    return Claim._make(
        (
            uuid(job_id),
            fence,
            task,
            lane,
            priority,
            moment(due_at),
            *counts,
            data(args),
            codec,
            data(options),
            data(params),
            tags,
        )
    )
