"""Knows the nodes and their leases."""

from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any, Final
from uuid import UUID

import msgspec

from detent.errors import Conflict, StoreUnavailable
from detent.spi.nodes import Beat, NodeIdentity, NodeInfo
from detent.spi.notifier import Hint, Notifier
from detent.stores.sqlite.columns import (
    MICROSECONDS,
    chunks,
    moment,
    moment_or_none,
    packed,
    span,
    uuid,
    written,
)
from detent.stores.sqlite.database import Database
from detent.stores.sqlite.failures import is_busy
from detent.stores.sqlite.marks import note_numbers
from detent.stores.sqlite.session import Session
from detent.stores.sqlite.statements import sql

# How many claims or jobs one transaction moves: no write keeps the others waiting for long.
PAGE: Final = 500
# A heartbeat asks for the lock for this share of its lease; then it looks what it can read.
LOCKED: Final = 1 / 20
# A shorter lease than this is none: it is ended by a heartbeat.
SHORTEST: Final = timedelta(seconds=1)
# So many seconds before its end a lease is not trusted any more.
MARGIN: Final = 1.0


class Nodes:
    """The part of the store that `NodeStore` describes."""

    database: Database
    notifier: Notifier

    async def join(self, node: NodeIdentity, lease: timedelta, *, ready: bool = True) -> datetime:
        """See `NodeStore.join`."""
        row = (
            node.incarnation.bytes,
            node.name,
            node.host,
            node.pid,
            node.version,
            written(dict(node.queues)),
            written(sorted(node.capabilities)),
            written(sorted(node.roles)),
            written(dict(node.info)),
            span(lease),
        )

        def work(session: Session) -> int:
            state = "active" if ready else "joining"
            if not session.change(sql("join_node"), *row, session.now, state):
                raise Conflict(node.incarnation, "join", "no longer active")
            return session.now

        now = await self.database.write(work, urgent=True)
        # Jobs wait that no node knew; this one may.
        while ready and await self._adopt(None, PAGE) == PAGE:
            pass
        return moment(now)

    async def beat(
        self, node: UUID, lease: timedelta, load: Mapping[str, float] | None = None
    ) -> Beat:
        """See `NodeStore.beat`. It goes before everything else that waits to be written."""
        said = None if load is None else written(dict(load))

        def work(session: Session) -> Beat:
            now = session.now
            alive = session.change(sql("beat_node", "beat"), node.bytes, span(lease), now, said)
            known = session.table(sql("beat_node", "nodes"), node.bytes, now)
            note_numbers(session, self.database.path)
            active, draining, end, slots, limited = known
            return Beat(
                alive=bool(alive),
                now=moment(now),
                nodes=active,
                draining=bool(draining),
                next_end=None if end is None else (end - now) / MICROSECONDS,
                slots=slots,
                limited=limited,
            )

        try:
            patience = lease * LOCKED if lease >= SHORTEST else None
            return await self.database.write(work, urgent=True, patience=patience)
        except StoreUnavailable as error:
            if error.__cause__ is None or not is_busy(error.__cause__):
                raise
            return await self._locked_out(node, error)

    async def _locked_out(self, node: UUID, error: StoreUnavailable) -> Beat:
        """Return what a heartbeat can know that could not write: a lock is no silence.

        While no node has been heard of for half a lease nobody can end a lease, also for a while
        after the lock is free: see `detent.model.lease`.
        """

        def read(session: Session) -> tuple[int, ...] | None:
            rows = session.rows(sql("beat_node", "locked"), node.bytes, session.now)
            return None if not rows else tuple(rows[0])

        found = await self.database.read(read)
        if found is None:
            return Beat(alive=False, now=moment(self.database.clock()), nodes=0)
        lease, until, witnesses = found
        now = self.database.clock()
        left = (until - now) / MICROSECONDS - MARGIN
        safe_for = lease / MICROSECONDS if not witnesses else left
        if safe_for <= 0:
            raise error
        return Beat(alive=True, now=moment(now), nodes=0, safe_for=safe_for)

    async def drain(self, node: UUID, *, returns: bool = False) -> None:
        """See `NodeStore.drain`."""
        state = "recycled" if returns else "draining"
        await self.database.write(
            lambda session: session.change(sql("drain_node"), node.bytes, state)
        )

    async def leave(self, node: UUID) -> None:
        """See `NodeStore.leave`."""
        await self.database.write(lambda session: session.change(sql("leave_node"), node.bytes))

    async def nodes(self) -> list[NodeInfo]:
        """See `NodeStore.nodes`."""
        rows = await self.database.read(lambda session: session.rows(sql("list_nodes")))
        return [_node_info(row) for row in rows]

    async def adopt_jobs(self, tasks: Sequence[str], limit: int) -> int:
        """See `NodeStore.adopt_jobs`."""
        known, adopted = written(list(tasks)), 0
        while adopted < limit:
            page = min(PAGE, limit - adopted)
            found = await self._adopt(known, page)
            adopted += found
            if found < page:
                break
        return adopted

    async def _adopt(self, tasks: str | None, limit: int) -> int:
        def none_there(session: Session) -> int | None:
            return None if session.value(sql("adopt_jobs", "any")) else 0

        def work(session: Session) -> int:
            found = session.change(sql("adopt_jobs", "ready"), tasks, limit)
            if found:
                session.change(sql("adopt_jobs", "gone"), tasks, limit)
            return found

        return await self.database.write(work, first=none_there)

    async def claims_of(self, node: UUID) -> list[tuple[UUID, int]]:
        """See `NodeStore.claims_of`."""

        def work(session: Session) -> list[Any]:
            return session.table(sql("claims_of"), node.bytes)

        # On the thread that writes, so that the answer comes in turn with those to claims and ends:
        # a node that compares it with what it holds would wonder otherwise.
        rows = await self.database.write(work, first=work)
        return [(uuid(job_id), fence) for job_id, fence in rows]

    async def release_claims(self, node: UUID, claims: Sequence[tuple[UUID, int]]) -> int:
        """See `NodeStore.release_claims`."""
        released = 0
        for page in chunks(claims, PAGE):
            released += await self._release(node, page)
        return released

    async def _release(self, node: UUID, claims: Sequence[tuple[UUID, int]]) -> int:
        ids = packed(job_id for job_id, _ in claims)
        mine = (node.bytes, ids, written([fence for _, fence in claims]))

        def work(session: Session) -> list[Any]:
            released = session.table(sql("release_claims", "released"), *mine)
            if released:
                session.change(sql("release_claims", "ready"), *mine)
                session.change(sql("release_claims", "gone"), *mine)
                session.change(sql("release_claims", "unprogressed"), ids)
            return released

        rows = await self.database.write(work)
        self.notifier.publish(
            [
                Hint(lane, priority, moment(due_at), uuid(job_id))
                for lane, priority, due_at, job_id in rows
            ]
        )
        return len({row[3] for row in rows})


def _node_info(row: Any) -> NodeInfo:
    values = dict(zip(row.keys(), row, strict=True))
    values["incarnation"] = UUID(bytes=row["incarnation"])
    for name in ("queues", "capabilities", "roles", "info", "load"):
        values[name] = msgspec.json.decode(row[name])
    for name in ("started_at", "heartbeat_at", "lease_until", "dead_at"):
        values[name] = moment_or_none(row[name])
    return NodeInfo(**values)
