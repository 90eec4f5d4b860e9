"""Gives back claims in this node's name that it does not know of: their reply was lost."""

from typing import Final
from uuid import UUID

from detent._engine.dispatch import Dispatcher
from detent._engine.look import rest_after
from detent._engine.service import Service
from detent.events import Bus, ClaimsReconciled
from detent.spi.nodes import NodeStore
from detent.spi.runtime import Runtime

# After trouble it compares more than once: the server may still be at work on a claim whose
# connection is gone, and have it ready only after the first look.
LOOKS_AFTER_TROUBLE: Final = (1.0, 5.0)
# To find the claims of a node the store may have to read all claims, dead rows included: an index
# by node would cost every claim. So comparing takes at most this share of the time, in each node.
SHARE: Final = 0.002
# What was slow may have been the line or this process, and not the read.
LONGEST_PAUSE: Final = 600.0


class Reconciler(Service):
    """Compares the store's claims with what the node holds, every minute and after trouble."""

    name = "reconciler"

    def __init__(
        self,
        runtime: Runtime,
        bus: Bus,
        store: NodeStore,
        dispatcher: Dispatcher,
        interval: float,
    ) -> None:
        super().__init__(runtime, bus)
        self._store = store
        self._dispatcher = dispatcher
        self._interval = interval
        self._looks: tuple[float, ...] = ()
        self.node_id: UUID | None = None

    async def run_once(self) -> float:
        """Compare once, and again soon after trouble."""
        if self.woken:
            self._looks = LOOKS_AFTER_TROUBLE
        if self.node_id is None:
            return 1.0
        before = self.runtime.monotonic()
        await self.compare()
        took = self.runtime.monotonic() - before
        if self._looks:
            pause, *rest = self._looks
            self._looks = tuple(rest)
            return max(pause, rest_after(took))
        return max(self._interval, min(took / SHARE, LONGEST_PAUSE))

    async def compare(self) -> None:
        """Give back what is unknown, once all claims have landed that the store may have told of.

        What such a claim brought is held by then, or has ended: releasing that changes nothing.
        """
        node = self.node_id
        if node is None:
            return
        claims = await self._store.claims_of(node)
        await self._dispatcher.flights.all_landed()
        held = self._dispatcher.held
        unknown = [
            (job_id, fence)
            for job_id, fence in claims
            if job_id not in held or held[job_id].claim.fence != fence
        ]
        if unknown and self.node_id == node:
            released = await self._store.release_claims(node, unknown)
            # Somebody may have been faster: the rescue, or an end that was on its way.
            if released:
                self.bus.emit(ClaimsReconciled(node, released))
