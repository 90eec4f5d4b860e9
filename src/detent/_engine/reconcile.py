"""Gives back claims in this node's name that it does not know of: their reply was lost."""

from uuid import UUID

from detent._engine.claim import Claimer
from detent._engine.dispatch import Dispatcher
from detent._engine.service import Service
from detent.events import Bus, ClaimsReconciled
from detent.spi.runtime import Runtime
from detent.spi.store import NodeStore


class Reconciler(Service):
    """Compares the store's claims with what the node holds, every minute and after trouble."""

    name = "reconciler"

    def __init__(
        self,
        runtime: Runtime,
        bus: Bus,
        store: NodeStore,
        dispatcher: Dispatcher,
        claimer: Claimer,
        interval: float,
    ) -> None:
        super().__init__(runtime, bus)
        self._store = store
        self._dispatcher = dispatcher
        self._claimer = claimer
        self._interval = interval
        self.node_id: UUID | None = None

    async def run_once(self) -> float:
        """Compare once; not while a claim is on its way, whose jobs we would not know yet."""
        node = self.node_id
        if node is None:
            return 1.0
        async with self._claimer.claiming:
            claims = await self._store.claims_of(node)
            held = self._dispatcher.held
            unknown = [
                (job_id, fence)
                for job_id, fence in claims
                if job_id not in held or held[job_id].claim.fence != fence
            ]
        if unknown and self.node_id == node:
            released = await self._store.release_claims(node, unknown)
            self.bus.emit(ClaimsReconciled(node, released))
        return self._interval
