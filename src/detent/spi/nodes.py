"""The nodes of a cluster as the store knows them: who they are, and until when they live."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Final, NamedTuple, Protocol
from uuid import UUID

from detent.model.job import needs_of, queue_of

ACTIVE: Final = "active"
# Before the name of a queue: how many claims of it the node has not begun yet.
UNSTARTED: Final = "unstarted:"


class NodeInfo(NamedTuple):
    """A node as the others see it."""

    incarnation: UUID
    name: str
    state: str
    queues: Mapping[str, int]
    host: str
    pid: int
    version: str
    started_at: datetime
    heartbeat_at: datetime
    lease_until: datetime
    capabilities: Sequence[str] = ()
    roles: Sequence[str] = ()
    info: Mapping[str, str] = {}
    """What the node says of itself: its Python, its place, whatever an app adds."""
    load: Mapping[str, float] = {}
    """What it said with its last heartbeat: running, slots, connections, cpu, rss, lag; and
    `unstarted:<queue>` for each queue of which it holds claims that have not begun."""
    dead_at: datetime | None = None
    death: str | None = None
    """Why it was declared dead."""

    def serves(self, lane: str) -> bool:
        """Tell whether the node runs jobs, and those of a lane among them."""
        offered = self.capabilities
        return (
            self.state == ACTIVE
            and queue_of(lane) in self.queues
            and all(need in offered for need in needs_of(lane))
        )


class Beat(NamedTuple):
    """The answer to a heartbeat."""

    alive: bool
    """False when the node's row is gone or dead: it must stop and join anew."""
    now: datetime
    nodes: int
    """How many nodes are active."""
    draining: bool = False
    """Whether somebody wants the node to drain, or it does already; not that it is recycled."""
    next_end: float | None = None
    """Seconds until the first lease of another node is over, as `detent.model.lease` says; None
    without others."""
    slots: Mapping[str, int] = {}
    """Queues that were scaled for all nodes, and to how many slots on each."""
    limited: Sequence[str] = ()
    """Queues that have a limit of their own."""
    safe_for: float | None = None
    """Where the lease could not be renewed because nobody can write: for how many seconds nobody
    can end it either. None when it was renewed."""


@dataclass(frozen=True, slots=True)
class NodeIdentity:
    """Who a node is: a name that may come again, and an incarnation that never does."""

    incarnation: UUID
    name: str
    host: str
    pid: int
    version: str
    queues: Mapping[str, int]
    capabilities: Collection[str] = ()
    roles: Collection[str] = ()
    info: Mapping[str, str] = field(default_factory=dict)


class NodeStore(Protocol):
    """Knows the nodes and their leases."""

    async def join(self, node: NodeIdentity, lease: timedelta, *, ready: bool = True) -> datetime:
        """Register an incarnation with a lease from the store's now; return that now.

        It is active, or as long as it is not `ready` joining: seen, and not given anything. To
        join once more makes it active.
        """

    async def beat(
        self, node: UUID, lease: timedelta, load: Mapping[str, float] | None = None
    ) -> Beat:
        """Renew the lease of a living node and keep what it says of its load.

        The store keeps since when the heartbeats of each node have had no gap
        (`detent.model.lease.Pulse`). Never creates or revives a node.
        """

    async def drain(self, node: UUID, *, returns: bool = False) -> None:
        """Mark a node as draining: it claims nothing more.

        One that `returns`, since its process is replaced by a fresh one, is recycled instead, and
        hears of it when somebody wants it to drain all the same.
        """

    async def leave(self, node: UUID) -> None:
        """Remove a node that holds no claims any more; one that still holds some stays listed."""

    async def nodes(self) -> list[NodeInfo]:
        """Return all known nodes, the oldest first."""

    async def adopt_jobs(self, tasks: Sequence[str], limit: int) -> int:
        """Put jobs back in their old place that were parked as `unknown_task`, if their task is
        one of these; return how many. Otherwise a job that came to the wrong node first would
        wait although the right one is there.
        """

    async def claims_of(self, node: UUID) -> list[tuple[UUID, int]]:
        """Return (id, fence) of every claim in the node's name."""

    async def release_claims(self, node: UUID, claims: Sequence[tuple[UUID, int]]) -> int:
        """Put claims back in their old place, uncharged; return how many there were."""
