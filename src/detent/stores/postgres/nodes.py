"""Knows the nodes and their leases."""

import json
from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any
from uuid import UUID

from detent.errors import Conflict
from detent.spi.nodes import Beat, NodeIdentity, NodeInfo
from detent.spi.notifier import Hint, Notifier
from detent.stores.postgres.database import Database


class Nodes:
    """The part of the store that `NodeStore` describes."""

    database: Database
    notifier: Notifier

    async def join(self, node: NodeIdentity, lease: timedelta, *, ready: bool = True) -> datetime:
        """See `NodeStore.join`."""
        rows = await self.database.fetch(
            "join_node",
            node.incarnation,
            node.name,
            node.host,
            node.pid,
            node.version,
            json.dumps(dict(node.queues)),
            sorted(node.capabilities),
            sorted(node.roles),
            json.dumps(dict(node.info)),
            lease.total_seconds(),
            ready,
        )
        if not rows:
            raise Conflict(node.incarnation, "join", "no longer active")
        now: datetime = rows[0]["now"]
        return now

    async def beat(
        self, node: UUID, lease: timedelta, load: Mapping[str, float] | None = None
    ) -> Beat:
        """See `NodeStore.beat`."""
        said = None if load is None else json.dumps(dict(load))
        rows = await self.database.fetch("beat_node", node, lease.total_seconds(), said)
        beat = Beat(*rows[0])
        slots = rows[0]["slots"]
        return beat._replace(slots={} if slots is None else json.loads(slots))

    async def drain(self, node: UUID, *, returns: bool = False) -> None:
        """See `NodeStore.drain`."""
        await self.database.fetch("drain_node", node, "recycled" if returns else "draining")

    async def leave(self, node: UUID) -> None:
        """See `NodeStore.leave`."""
        await self.database.fetch("leave_node", node)

    async def nodes(self) -> list[NodeInfo]:
        """See `NodeStore.nodes`."""
        rows = await self.database.fetch("list_nodes")
        return [_node_info(row) for row in rows]

    async def adopt_jobs(self, tasks: Sequence[str], limit: int) -> int:
        """See `NodeStore.adopt_jobs`."""
        return len(await self.database.fetch("adopt_jobs", list(tasks), limit))

    async def claims_of(self, node: UUID) -> list[tuple[UUID, int]]:
        """See `NodeStore.claims_of`."""
        rows = await self.database.fetch("claims_of", node)
        return sorted((row["id"], row["fence"]) for row in rows)

    async def release_claims(self, node: UUID, claims: Sequence[tuple[UUID, int]]) -> int:
        """See `NodeStore.release_claims`."""
        ids, fences = [claim[0] for claim in claims], [claim[1] for claim in claims]
        rows = await self.database.fetch("release_claims", node, ids, fences)
        self.notifier.publish(
            [Hint(row["lane"], row["priority"], row["due_at"], row["id"]) for row in rows]
        )
        return len(rows)


def _node_info(row: Any) -> NodeInfo:
    plain = {name: json.loads(row[name]) for name in ("queues", "info", "load")}
    return NodeInfo._make(row)._replace(**plain)
