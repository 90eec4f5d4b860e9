"""Knowing the nodes: leases by the store's clock, and the claims in a node's name."""

from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from typing import Final
from uuid import UUID

from detent.model.lease import ends_at, witnessed_since
from detent.spi.nodes import Beat, NodeIdentity, NodeInfo
from detent.stores.memory.ending import wake_unknown_tasks
from detent.stores.memory.tables import Node, Tables

JOINING: Final = "joining"
ACTIVE: Final = "active"
DEAD: Final = "dead"
DRAINING: Final = "draining"
RECYCLED: Final = "recycled"


def join(
    tables: Tables, now: datetime, node: NodeIdentity, lease: timedelta, *, ready: bool = True
) -> datetime:
    """Register an incarnation; a repeated call renews its lease, and may make it active."""
    known = tables.nodes.get(node.incarnation)
    if known is not None:
        beat(tables, now, node.incarnation, lease)
        if ready and known.state == JOINING:
            tables.nodes[node.incarnation] = tables.nodes[node.incarnation]._replace(state=ACTIVE)
            wake_unknown_tasks(tables)
        return now
    tables.nodes[node.incarnation] = Node(
        incarnation=node.incarnation,
        name=node.name,
        state=ACTIVE if ready else JOINING,
        queues=dict(node.queues),
        host=node.host,
        pid=node.pid,
        version=node.version,
        started_at=now,
        heartbeat_at=now,
        lease_until=now + lease,
        capabilities=tuple(sorted(node.capabilities)),
        roles=tuple(sorted(node.roles)),
        info=dict(node.info),
        steady_since=now,
    )
    if ready:
        wake_unknown_tasks(tables)
    return now


def adopt_jobs(tables: Tables, now: datetime, tasks: Sequence[str], limit: int) -> int:
    """Let jobs go that were parked for want of a node that knows them."""
    return wake_unknown_tasks(tables, tasks, limit)


def beat(
    tables: Tables,
    now: datetime,
    node: UUID,
    lease: timedelta,
    load: Mapping[str, float] | None = None,
) -> Beat:
    """Renew a lease; a node that is gone or dead stays so."""
    row = tables.nodes.get(node)
    alive = row is not None and row.state != DEAD
    if row is not None and alive:
        tables.nodes[node] = row._replace(
            **row.pulse.renewed(now, lease)._asdict(),
            load=row.load if load is None else dict(load),
        )
    active = [each for each in tables.nodes.values() if each.state == ACTIVE]
    living = [each for each in tables.nodes.values() if each.state != DEAD]
    witnessed = witnessed_since((each.pulse for each in living), now)
    ends = [ends_at(each.pulse, witnessed) for each in living if each.incarnation != node]
    return Beat(
        alive,
        now,
        sum(each.lease_until > now for each in active),
        draining=row is not None and row.state == DRAINING,
        next_end=(min(ends) - now).total_seconds() if ends else None,
        slots=dict(tables.slots),
        limited=tuple(
            name.removeprefix("queue:") for name in sorted(tables.limits) if name[:6] == "queue:"
        ),
    )


def drain(tables: Tables, now: datetime, node: UUID, *, returns: bool = False) -> None:
    """Let a node claim nothing more; one that is recycled can still be told to stay away."""
    row = tables.nodes.get(node)
    if row is not None and row.state in (JOINING, ACTIVE, RECYCLED):
        tables.nodes[node] = row._replace(state=RECYCLED if returns else DRAINING)


def leave(tables: Tables, now: datetime, node: UUID) -> None:
    """Forget a node without claims; with claims it stays, for their rescue."""
    if not claims_of(tables, now, node):
        tables.nodes.pop(node, None)


def nodes(tables: Tables, now: datetime) -> list[NodeInfo]:
    """Return all nodes, the oldest first."""
    rows = sorted(tables.nodes.values(), key=lambda row: (row.started_at, row.incarnation))
    return [NodeInfo._make(row[: len(NodeInfo._fields)]) for row in rows]


def claims_of(tables: Tables, now: datetime, node: UUID) -> list[tuple[UUID, int]]:
    """Return (id, fence) of the node's claims, in id order."""
    return sorted(
        (job_id, claim.fence) for job_id, claim in tables.running.items() if claim.node == node
    )


def release_claims(
    tables: Tables, now: datetime, node: UUID, claims: Sequence[tuple[UUID, int]]
) -> int:
    """Put claims back in their old place, uncharged."""
    mine = [each for each in claims_of(tables, now, node) if each in claims]
    for job_id, _ in mine:
        tables.put_back(tables.running.pop(job_id).place)
        tables.progress.pop(job_id, None)
    return len(mine)
