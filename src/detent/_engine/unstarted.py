"""Gives back claims that have not begun about a second after they were made.

A claim is for starting. One that waits here, for a slot or for a worker of its executor, keeps its
job from every other node. So it goes back to its old place, uncharged, while another node could
start it. A node that serves a queue alone keeps its claims: it would only take them again. In both
cases the queue takes fewer claims from then on, as `detent._engine.slots` says.

Claims that gather for a batch wait on purpose, for as long as their task lets them linger. They
count from when the batch is ready.
"""

from collections import Counter
from collections.abc import Sequence
from typing import Final

from detent._engine.attempt import Attempt, Workbench
from detent._engine.claim import Claimer
from detent._engine.dispatch import Dispatcher
from detent._engine.service import Service
from detent._engine.slots import REST, count_workers
from detent.spi.nodes import NodeInfo, NodeStore

# How long a claim may wait for a slot or a worker.
PATIENCE: Final = 1.0
LOOK: Final = 0.5
# How long an answer holds about which nodes there are.
REMEMBER: Final = 1.0


class UnstartedReleaser(Service):
    """Looks at what waits, and lets other nodes have what has waited for too long."""

    name = "unstarted"

    def __init__(
        self, bench: Workbench, store: NodeStore, dispatcher: Dispatcher, claimer: Claimer
    ) -> None:
        super().__init__(bench.runtime, bench.bus)
        self._bench = bench
        self._store = store
        self._dispatcher = dispatcher
        self._claimer = claimer
        self._nodes: Sequence[NodeInfo] = ()
        self._asked_at = float("-inf")

    async def run_once(self) -> float:
        """Look once; the store is asked only when something has waited for too long."""
        # Tasks may be declared while the node runs.
        self._dispatcher.workers = count_workers(self._bench.registry, self._bench.executors)
        late = self._overdue()
        self._adjust(late)
        asks = bool(late) and self._claimer.able
        if asks:
            await self._give_back()
        # A rest is shorter than the time between two looks.
        resting = any(slots.resting for slots in self._dispatcher.queues.values())
        delay = REST if resting else LOOK
        return delay if asks else self.unasked(delay)

    async def _give_back(self) -> None:
        """Let others have what has waited for too long, and a moment to take it."""
        nodes = await self._other_nodes()
        late = [
            attempt
            # What has begun meanwhile stays.
            for attempt in self._overdue()
            if any(node.serves(attempt.claim.lane) for node in nodes)
        ]
        for queue in dict.fromkeys(attempt.queue for attempt in late):
            self._dispatcher.queues[queue].rest(self.runtime.monotonic())
        self._dispatcher.give_back(late)

    def _overdue(self) -> list[Attempt]:
        """Return what has waited for too long for a slot or for a worker."""
        since = self.runtime.monotonic() - PATIENCE
        late = []
        for slots in self._dispatcher.queues.values():
            for attempt in slots.waiting:
                if attempt.started > since:
                    break
                late.append(attempt)
        return [*late, *(each for each in self._bench.queued.values() if each.started <= since)]

    def _adjust(self, late: Sequence[Attempt]) -> None:
        """Let queues in which claims wait for long take no more of them, and others try more."""
        now, queues = self.runtime.monotonic(), self._dispatcher.queues
        queued = Counter(attempt.queue for attempt in self._bench.queued.values())
        for queue in dict.fromkeys(attempt.queue for attempt in late):
            queues[queue].cap(queues[queue].busy - queued[queue], now)
        for queue, slots in queues.items():
            if slots.ceiling is None:
                continue
            rested = slots.end_rest(now)
            probes = not slots.resting and not self._dispatcher.waits(queue) and slots.probe(now)
            if rested or probes:
                self._dispatcher.on_room(queue)

    async def _other_nodes(self) -> Sequence[NodeInfo]:
        """Return the nodes that work beside this one."""
        now = self.runtime.monotonic()
        if now - self._asked_at >= REMEMBER:
            own = self._claimer.node_id
            nodes = await self._store.nodes()
            self._nodes = [node for node in nodes if node.incarnation != own]
            self._asked_at = now
        return self._nodes
