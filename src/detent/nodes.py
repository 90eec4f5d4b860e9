"""What people do with nodes."""

from collections.abc import Sequence
from datetime import timedelta
from typing import Final, Protocol
from uuid import UUID

from detent.due import read_length
from detent.errors import ConfigError, NodeNotFound
from detent.model.access import Action, Target
from detent.model.durations import Duration
from detent.protection import Protection
from detent.spi.nodes import NodeInfo, NodeStore
from detent.spi.notifier import Notifier, SignalHint
from detent.spi.rescue import RescueStore

DRAINING: Final = "draining"
DEAD: Final = "dead"
PAGE: Final = 500


class NodesStore(NodeStore, RescueStore, Protocol):
    """What is needed to look after nodes."""


class Nodes:
    """All nodes of a cluster."""

    def __init__(
        self,
        store: NodesStore,
        notifier: Notifier | None,
        max_crashes: int,
        protection: Protection | None = None,
    ) -> None:
        self._store = store
        self._notifier = notifier
        self._max_crashes = max_crashes
        self._protection = protection or Protection()

    async def list(self, *, inactive_for: Duration | None = None) -> Sequence[NodeInfo]:
        """Return the nodes, the oldest first; or those that have been silent for that long."""
        if inactive_for is None:
            return await self._store.nodes()
        silence = read_length("list", "inactive_for", inactive_for)
        nodes = await self._store.nodes()
        now = (await self._store.beat(UUID(int=0), timedelta(0))).now
        return [node for node in nodes if now - node.heartbeat_at >= silence]

    async def get(self, node: UUID | str) -> NodeInfo:
        """Return a node by its incarnation, or the youngest living one by its name."""
        return (await self._named(node))[-1]

    async def _named(self, node: UUID | str) -> Sequence[NodeInfo]:
        """Return the living nodes that are meant, or else the dead ones."""
        found = [each for each in await self._store.nodes() if _is(each, node)]
        if not found:
            raise NodeNotFound(node)
        return [each for each in found if each.state != DEAD] or found

    async def drain(self, node: UUID | str) -> NodeInfo:
        """Let a node end: it claims no more, waits for what runs, and leaves.

        It hears of it at once by a wake-up, or else with its next heartbeat.
        """
        found = await self._permitted(node)
        await self._store.drain(found.incarnation)
        if self._notifier is not None:
            self._notifier.publish([SignalHint(found.incarnation)])
        return found._replace(state=DEAD if found.state == DEAD else DRAINING)

    async def forget(self, node: UUID | str) -> NodeInfo:
        """Declare a node dead that is known to be gone, without waiting for its lease.

        Its jobs are given to others at once. Should it live after all, it stops and joins anew.
        """
        found = await self._permitted(node)
        await self.bury([found.incarnation], "an operator said that it is gone")
        return found._replace(state=DEAD)

    async def _permitted(self, node: UUID | str) -> NodeInfo:
        named = await self._named(node)
        found = named[-1]
        if len(named) > 1 and found.state != DEAD:
            # The one that is meant may be the old one, of which the new one took the name.
            several = ", ".join(str(each.incarnation) for each in named)
            raise ConfigError(
                f"node = {node!r}: {len(named)} nodes have that name; "
                f"give the incarnation instead, one of {several}"
            )
        target = Target(kind="node", name=found.name, id=found.incarnation)
        await self._protection.permit(Action.CONFIGURE, target)
        return found

    async def bury(self, nodes: Sequence[UUID], reason: str) -> int:
        """Declare nodes dead and give their jobs to others; return how many jobs those were."""
        await self._store.declare_dead(nodes, reason)
        count = 0
        while jobs := (await self._store.rescue(PAGE, self._max_crashes)).jobs:
            count += len(jobs)
        return count


def _is(node: NodeInfo, wanted: UUID | str) -> bool:
    return wanted in (node.incarnation, str(node.incarnation), node.name)
