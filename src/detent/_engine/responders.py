"""Lets one node answer the wake-up of a lone job: without it every node would ask the store.

The hint of a lone job has a token. The nodes that serve its lane stand in one order, and the token
says which of them claims at once. Each of the others plans to claim a step later than the one
before it, and calls that off when a node tells that nothing is left. So a lone job costs the same
with two nodes and with fifty. If the first node is dead or busy, the job starts one step later.

Hints of many jobs, of limits and of positions have no token: all nodes claim at once.
"""

from collections.abc import Callable, Collection, Sequence
from typing import Final
from uuid import UUID

from detent._engine.service import Service
from detent.events import Bus
from detent.model.gates import is_gated
from detent.model.job import queue_of
from detent.spi.nodes import NodeInfo, NodeStore
from detent.spi.notifier import AnsweredHint, Hint, Notifier, Wake
from detent.spi.runtime import Cancelable, Runtime

# How much later than the one before it a node claims: a claim and its answer take a fraction of it.
STEP: Final = 0.025
# How often a node makes sure which others there are; it also does so when their number changes.
INTERVAL: Final = 60.0
# However often other nodes seem to be gone, it asks no more often than this.
LEAST: Final = 5.0
# A node that got room only after this long answers for no token any more.
STALE: Final = 1.0

Token = tuple[str, int]


class Responders(Service):
    """Decides which wake-ups concern this node now, and which only if no other node answers."""

    name = "responders"

    def __init__(
        self,
        runtime: Runtime,
        bus: Bus,
        store: NodeStore,
        notifier: Notifier | None,
        receive: Callable[[Sequence[Wake]], None],
    ) -> None:
        super().__init__(runtime, bus)
        self._store = store
        self._notifier = notifier
        self._receive = receive
        self._me: UUID | None = None
        self._count = 0
        self._asked_at = float("-inf")
        self._limited: Collection[str] = ()
        self._nodes: Sequence[NodeInfo] = ()
        self._orders: dict[str, list[UUID]] = {}
        """The nodes that serve each lane, in the order that all nodes agree on."""
        self._planned: dict[Token, Cancelable] = {}
        self._open: dict[Token, float] = {}
        """The tokens that this node is to answer first, and since when."""

    def work_for(self, incarnation: UUID | None) -> None:
        """Take note of who this node is."""
        self._me, self._asked_at = incarnation, float("-inf")
        self.wake()

    def hear_of(self, nodes: int, limited: Collection[str]) -> None:
        """Take what a heartbeat says: how many nodes there are, and which queues have limits."""
        self._limited = limited
        if nodes != self._count:
            self._count, self._asked_at = nodes, float("-inf")
            self.wake()

    async def run_once(self) -> float:
        """Learn which nodes there are."""
        rest = self._asked_at + LEAST - self.runtime.monotonic()
        if rest > 0:
            return self.unasked(rest)
        self._asked_at = self.runtime.monotonic()
        self._nodes = await self._store.nodes()
        self._orders.clear()
        return INTERVAL

    # Hints

    def admit(self, wakes: Sequence[Wake]) -> Sequence[Wake]:
        """Return the wake-ups that concern this node now; the others follow unless called off."""
        if not any(isinstance(wake, AnsweredHint) or is_lone(wake) for wake in wakes):
            return wakes
        now: list[Wake] = []
        for wake in wakes:
            if isinstance(wake, AnsweredHint):
                self._call_off(wake)
            elif not isinstance(wake, Hint) or wake.token is None or not self._put_off(wake):
                now.append(wake)
        return now

    def _put_off(self, hint: Hint) -> bool:
        """Return whether another node is to answer a hint first; if so, plan to follow it."""
        assert hint.token is not None
        if is_gated(hint.lane) or queue_of(hint.lane) in self._limited:
            return False
        order, token = self._order(hint.lane), (hint.lane, hint.token)
        if len(order) < 2 or self._me not in order:
            return False
        steps = (order.index(self._me) - hint.token) % len(order)
        if steps == 0:
            self._open[token] = self.runtime.monotonic()
            return False
        if token not in self._planned:
            later = hint._replace(token=None)
            self._planned[token] = self.runtime.later(
                steps * STEP, lambda: self._nobody_answered(token, later)
            )
        return True

    def _order(self, lane: str) -> list[UUID]:
        order = self._orders.get(lane)
        if order is None:
            order = sorted(node.incarnation for node in self._nodes if node.serves(lane))
            self._orders[lane] = order
        return order

    def _call_off(self, answered: AnsweredHint) -> None:
        for number in answered.tokens:
            plan = self._planned.pop((answered.lane, number), None)
            if plan is not None:
                plan.cancel()

    def _nobody_answered(self, token: Token, hint: Hint) -> None:
        """Claim, since the nodes before this one have not said that they did."""
        del self._planned[token]
        self._receive([hint])
        # One of them may be gone.
        self.wake()

    # Answers

    def take(self) -> Sequence[Token]:
        """Return what the claim that begins now will answer."""
        if not self._open:
            return ()
        since = self.runtime.monotonic() - STALE
        taken = [token for token, heard in self._open.items() if heard >= since]
        self._open.clear()
        return taken

    def answer(self, taken: Sequence[Token], is_empty: Callable[[str], bool]) -> Sequence[Token]:
        """Tell the other nodes of tokens in whose queues nothing is left; return the others."""
        lanes: dict[str, list[int]] = {}
        left: list[Token] = []
        for token in taken:
            if is_empty(queue_of(token[0])):
                lanes.setdefault(token[0], []).append(token[1])
            else:
                left.append(token)
        if lanes and self._notifier is not None:
            hints = [AnsweredHint(lane, tuple(each)) for lane, each in lanes.items()]
            self._notifier.publish(hints)
        return left


def is_lone(wake: Wake) -> bool:
    """Tell whether a wake-up is the hint of a lone job."""
    return isinstance(wake, Hint) and wake.token is not None
