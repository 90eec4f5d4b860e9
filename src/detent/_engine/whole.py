"""Claims from a family as a whole, and learns from the answer what comes next."""

from collections.abc import Callable
from datetime import timedelta
from typing import Final
from uuid import UUID

from detent._engine.choice import Choice
from detent._engine.claim import Claimer
from detent._engine.dispatch import Dispatcher
from detent._engine.families import Family
from detent._engine.lanes import KnownLanes
from detent._engine.permits import GateStore
from detent._engine.turns import Turn
from detent.config import NodeConfig
from detent.errors import StoreUnavailable
from detent.spi.limits import FamilyAnswer, FamilyRequest, LaneAnswer, Refusal
from detent.spi.runtime import Runtime

# When to ask again for what another claim holds.
BUSY: Final = (0.020, 0.060)


class WholeClaims:
    """The claims of one node from families."""

    def __init__(
        self,
        runtime: Runtime,
        store: GateStore,
        *,
        claimer: Claimer,
        dispatcher: Dispatcher,
        lanes: KnownLanes,
        choice: Choice,
        config: NodeConfig,
        boost_interval: timedelta,
    ) -> None:
        self._runtime = runtime
        self._store = store
        self._claimer = claimer
        self._dispatcher = dispatcher
        self._lanes = lanes
        self._choice = choice
        self._config = config
        self._boost_interval = boost_interval
        self.recheck: Callable[[], float] = lambda: 1.0
        """Returns when to ask again for what is kept out, in any case."""
        self.on_given_up: Callable[[], None] = lambda: None
        """Called when lanes of which nothing is known have to be claimed from one by one."""
        self.on_paused: Callable[[str], object] = lambda queue: None
        """Called with a queue that gives nothing until it is resumed."""

    async def claim(self, node: UUID, turn: Turn, room: int) -> int:
        """Claim up to so many jobs; return how many there were."""
        known = turn.known
        family = self._lanes.families.of(known.lane)
        if family is None:
            return 0
        floors = list(family.floors)
        request = FamilyRequest(
            node,
            family.name,
            known.queue,
            room,
            family.walk(room),
            turn.least,
            floors,
            list(family.apart),
            self._boost_interval,
            self._config.inline_args,
        )
        with self._dispatcher.flights.claim({known.queue: room}):
            try:
                answer = await self._store.claim_family(request)
            except StoreUnavailable:
                # The claim may have been made although we were not told.
                self._claimer.on_lost_reply()
                raise
            if self._claimer.node_id == node:
                self._dispatcher.dispatch(answer.claims, node)
        self._choice.took(known, len(answer.claims))
        if self._lanes.families.of(known.lane) is not family:
            return len(answer.claims)
        if answer.refusal is Refusal.NOT_OFFERED or not family.learn(answer, floors, room):
            self._lanes.families.rest(family)
            self._lanes.drop(known)
            self.on_given_up()
        else:
            if answer.claims:
                self._lanes.families.worked(family)
            self._take_in(turn, family, answer)
        return len(answer.claims)

    def _take_in(self, turn: Turn, family: Family, answer: FamilyAnswer) -> None:
        """Learn how urgent a family is, and plan the next claim."""
        known, now = turn.known, self._runtime.monotonic()
        known.is_tight = answer.refusal is not None or answer.blocked > 0
        known.members = max(answer.keys, 1)
        for lane in answer.crowd:
            self._lanes.set_apart(known, lane)
        if answer.refusal is Refusal.BUSY:
            wait = self._runtime.uniform(*BUSY)
            self._lanes.block(known, _shut(known.lane, known.gates[0], wait), wait)
            return
        if answer.refusal is Refusal.PAUSED:
            self._lanes.block(known, _shut(known.lane, known.gates[-1], None), self.recheck())
            self.on_paused(known.queue)
            return
        head = answer.head
        if head is None and not answer.is_all:
            head = answer.last
        self._lanes.told(known, None if head is None else (head.priority, now - head.waited))
        if answer.refusal is not None or known.heard or known.changed or head is not None:
            self._lanes.ready_at(known, 0.0)
        elif answer.blocked:
            look = self.recheck()
            if answer.due_in is not None:
                look = min(look, max(answer.due_in, 0.0))
            self._lanes.block(known, _shut(known.lane, known.gates[0], None), look)
        elif answer.due_in is not None:
            self._lanes.ready_at(known, max(answer.due_in, 0.0))
        elif family.apart:
            # Of those that were set apart some may be left, and others may follow.
            self._lanes.ready_at(known, self.recheck())
        else:
            self._lanes.drop(known)


def _shut(lane: str, gate: str, wait: float | None) -> LaneAnswer:
    return LaneAnswer(lane, 0, gate, wait, 0.0, None, None)
