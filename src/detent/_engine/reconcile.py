"""Compares the claims in this node's name with what it holds.

A claim that the node does not know of goes back: its reply was lost. A job that runs here without a
claim is stopped: the store has lost a part of its history, and another node may have the job.
"""

from collections.abc import Mapping, Sequence
from typing import Final, Protocol
from uuid import UUID

from detent._engine.attempt import Attempt, Stop
from detent._engine.dispatch import Dispatcher
from detent._engine.look import rest_after
from detent._engine.service import Service
from detent.events import Bus, ClaimsReconciled, ClaimWasLost, HistoryLost
from detent.spi.nodes import NodeStore
from detent.spi.numbers import NumberStore
from detent.spi.runtime import Runtime

# After trouble it compares more than once: the server may still be at work on a claim whose
# connection is gone, and have it ready only after the first look.
LOOKS_AFTER_TROUBLE: Final = (1.0, 5.0)
DEAD: Final = "dead"
# A job without a claim is stopped if it had none this many seconds ago either.
APART: Final = 0.5
# To find the claims of a node the store may have to read all claims, dead rows included: an index
# by node would cost every claim. So comparing takes at most this share of the time, in each node.
SHARE: Final = 0.002
# What was slow may have been the line or this process, and not the read.
LONGEST_PAUSE: Final = 600.0


class ClaimRecords(NodeStore, NumberStore, Protocol):
    """What the comparison needs of a store."""


class Reconciler(Service):
    """Compares the store's claims with what the node holds, every minute and after trouble."""

    name = "reconciler"

    def __init__(
        self,
        runtime: Runtime,
        bus: Bus,
        store: ClaimRecords,
        dispatcher: Dispatcher,
        interval: float,
    ) -> None:
        super().__init__(runtime, bus)
        self._store = store
        self._dispatcher = dispatcher
        self._interval = interval
        self._looks: tuple[float, ...] = ()
        self._missed: Mapping[tuple[UUID, int], float] = {}
        """What ran without a claim when it was compared the last time, and since when."""
        self.node_id: UUID | None = None

    def store_answers(self) -> None:
        """Compare soon: it may be another server that answers, and one that lacks the last claims.

        Whichever part of the node had the trouble.
        """
        super().store_answers()
        self.wake()

    async def run_once(self) -> float:
        """Compare once, and again soon after trouble."""
        if self.woken:
            self._looks = LOOKS_AFTER_TROUBLE
        if self.node_id is None:
            return self.unasked(1.0)
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
        running = [each for each in self._dispatcher.held.values() if each.node_id == node]
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
        await self._stop_unclaimed(node, running, claims)

    async def _stop_unclaimed(
        self, node: UUID, running: Sequence[Attempt], claims: Sequence[tuple[UUID, int]]
    ) -> None:
        """Stop what has no claim, if it had none a moment ago either.

        Once is not enough: an end that its job has written itself is known here a moment later.
        """
        claimed = dict.fromkeys(claims)
        now = self.runtime.monotonic()
        missed = {
            (each.claim.id, each.claim.fence): each
            for each in running
            if (each.claim.id, each.claim.fence) not in claimed and self._goes_on(each)
        }
        self._missed = {key: self._missed.get(key, now) for key in missed}
        lost = [each for key, each in missed.items() if now - self._missed[key] >= APART]
        if missed and not self._looks:
            self._looks = LOOKS_AFTER_TROUBLE
        if not lost or self.node_id != node:
            return
        for each in lost:
            each.stop_for(Stop.FENCED)
            self.bus.emit(ClaimWasLost(each.claim.id, each.claim.task, node))
        # Of a node that was declared dead others have taken them, and it will hear of that.
        if await self._is_alive(node):
            self.bus.emit(HistoryLost(node, f"{len(lost)} claims of jobs that run here are gone"))
            # A server that was promoted has seen to this; one that was set back has not.
            await self._store.raise_numbers(max(each.claim.fence for each in lost))

    async def _is_alive(self, node: UUID) -> bool:
        known = [each for each in await self._store.nodes() if each.incarnation == node]
        return any(each.state != DEAD for each in known)

    def _goes_on(self, attempt: Attempt) -> bool:
        """Whether an attempt has still to write its end."""
        is_held = self._dispatcher.held.get(attempt.claim.id) is attempt
        fenced = attempt.stop is Stop.FENCED
        return is_held and not attempt.over and not attempt.completed and not fenced
