"""Claims jobs that stand behind gates: of limits, rates and fair shares.

All jobs behind the same gates stand in one lane. A lane whose gate is full is left alone until an
end of a job, the moment of a rate, or a poll says that it may be open; so what is blocked costs
nothing, however much of it there is. Lanes have their turns one after the other: that is what
makes shares fair.
"""

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from datetime import timedelta
from typing import Final
from uuid import UUID

from detent._engine.claim import GATHER, Claimer
from detent._engine.dispatch import Dispatcher
from detent._engine.floors import Floors, positions_in
from detent._engine.lanes import BATCH, KnownLane, KnownLanes
from detent._engine.service import Service
from detent.config import NodeConfig
from detent.errors import StoreUnavailable
from detent.events import Bus
from detent.model.gates import is_gated
from detent.model.job import SUSPECT, queue_of
from detent.model.limits import Limit
from detent.model.rescue import suspect_lane
from detent.spi.limits import GatedAnswer, GatedRequest, LaneAnswer, LimitStore
from detent.spi.notifier import EVERYONE, Hint, Notifier, SignalHint, Wake
from detent.spi.runtime import Runtime
from detent.spi.scans import LaneScan

# How many lanes one claim asks.
AT_ONCE: Final = BATCH
PAGE: Final = 500
# Hints tell of lanes and of open gates; these looks are for hints that were lost.
LOOK: Final = 5.0
ALONE: Final = 1.0
REST: Final = 50
# A short answer may only mean that somebody else holds the rows at this moment.
ASK_AGAIN: Final = (0.005, 0.020)
TELL: Final = 0.05
FOREVER: Final = 3_600.0


class GatedClaimer(Service):
    """Claims from the lanes that have gates, and from all lanes of queues that have a limit."""

    name = "gates"

    def __init__(  # noqa: PLR0913  what it is made of, each by its name
        self,
        runtime: Runtime,
        bus: Bus,
        store: LimitStore,
        notifier: Notifier | None,
        *,
        claimer: Claimer,
        dispatcher: Dispatcher,
        config: NodeConfig,
        boost_interval: timedelta,
        limits: Sequence[Limit] = (),
    ) -> None:
        super().__init__(runtime, bus)
        self._store = store
        self._notifier = notifier
        self._undeclared = limits
        """What code says, until the store has been told."""
        self._claimer = claimer
        self._dispatcher = dispatcher
        self._config = config
        self._boost_interval = boost_interval
        self._lanes = KnownLanes(dict.fromkeys(claimer.lanes), runtime.monotonic)
        self._floors = Floors()
        self._cursor = ""
        self._look_at = 0.0
        # Until a heartbeat says otherwise: the first look is at the start.
        self._gated = True
        self._alone = False
        self._limited: Collection[str] = ()
        self._turns: dict[str, bool] = {}
        self.waits_for_room = False
        """Whether it wants to be woken when a slot becomes free."""
        self._untold: dict[str, None] = {}
        self._tell_at = 0.0
        self._hungry = False
        """Whether the last claim was full, so that more is surely there."""
        self._enough = min(config.claim_batch, sum(config.slots().values())) // 4
        self.on_suspect: Callable[[], None] = lambda: None

    # What it hears

    def receive(self, wakes: Sequence[Wake]) -> None:
        """Take wake-ups from the notifier; nothing in them means that some may be missing."""
        if not wakes:
            self._look_soon()
            return
        self._floors.lower_to(positions_in(wakes))
        for wake in wakes:
            if isinstance(wake, Hint):
                if is_gated(wake.lane) or (self._limited and queue_of(wake.lane) in self._limited):
                    self._hear(wake.lane)
            elif isinstance(wake, SignalHint) and wake.node == EVERYONE:
                # A limit may have been changed.
                self._lanes.open_all()
                self.wake()

    def released(self, lanes: Iterable[str]) -> None:
        """Ends of this node's own jobs are written: others may be let in, here or elsewhere."""
        for lane in lanes:
            # Where gates were wide open just now nobody is likely to wait: that is told later.
            self._untold[lane] = None
            if self._lanes.is_tight(lane):
                self._tell_at = 0.0
            self._hear(lane)
        if self._tell_at == 0.0:
            self._tell()

    def _tell(self) -> None:
        """Let other nodes know in which lanes jobs have ended."""
        self._tell_at = self.runtime.monotonic() + TELL
        lanes, self._untold = self._untold, {}
        if self._notifier is not None:
            self._notifier.publish([Hint(lane) for lane in lanes])

    def hear_of(self, gated: bool, limited: Collection[str]) -> None:
        """Take what a heartbeat says: whether jobs stand behind gates, which queues have limits."""
        if gated and not self._gated:
            self._look_at = 0.0
            self.wake()
        self._gated = gated
        if list(limited) != list(self._limited):
            self._limited = tuple(limited)
            served = self._claimer.lanes_by_queue
            for queue in self._limited:
                for lane in served.get(queue, ()):
                    self._hear(lane)
            self._claimer.look_anew()

    def rely_on_wakeups(self, hears: bool) -> None:
        """Know whether wake-ups reach this node."""
        self._alone = not hears
        self.wake()

    def forget(self) -> None:
        """Scan from the very beginning again."""
        self._floors.forget()

    def _hear(self, lane: str) -> None:
        if self._lanes.hear(lane):
            if lane.endswith(SUSPECT):
                self.on_suspect()
            self.wake()

    def _look_soon(self) -> None:
        self._floors.forget()
        self._lanes.open_all()
        self._look_at, self._cursor, self._gated = 0.0, "", True
        self.wake()

    # Claiming

    async def run_once(self) -> float:
        """Look for lanes if it is time to, and claim once."""
        await self.declare()
        if self._untold and self.runtime.monotonic() >= self._tell_at:
            self._tell()
        if self.runtime.monotonic() >= self._look_at:
            await self._look()
        self._lanes.come_due()
        self.waits_for_room = False
        if self._lanes.ready and not self._claimer.able:
            self.waits_for_room = True
            return 1.0
        if self._lanes.ready:
            if self._hungry and sum(self._dispatcher.rooms().values()) < self._enough:
                # Others will be free in a moment; until then there is no hurry.
                await self.runtime.sleep(GATHER)
            async with self._claimer.claiming:
                await self._claim()
        self._take_turns()
        return self._until_next()

    async def declare(self) -> None:
        """Make sure that the store knows the limits that are written in code."""
        if self._undeclared:
            await self._store.declare_limits(self._undeclared)
            self._undeclared = ()

    async def claim_suspect(self) -> None:
        """Claim one job that may have killed its node; asked for while the node has none."""
        rooms = self._dispatcher.all_rooms()
        lanes = [lane for lane in self._lanes.suspects if rooms[queue_of(lane)] > 0]
        lanes += [
            suspect_lane(lane)
            for queue in self._limited
            if rooms.get(queue, 0) > 0
            for lane in self._claimer.lanes_by_queue.get(queue, ())
        ]
        node = self._claimer.node_id
        if not lanes or node is None:
            return
        scans = [LaneScan(lane, queue_of(lane), 1) for lane in lanes[:AT_ONCE]]
        async with self._claimer.claiming:
            answer = await self._ask(node, scans, [1] * len(scans), 1)
        for told in answer.lanes:
            if told.due_in is None:
                self._lanes.suspects.pop(told.lane, None)

    async def _claim(self) -> None:
        """Ask for jobs of the lanes whose turn it is."""
        node = self._claimer.node_id
        asked = self._shares(self._rooms())
        if not asked or node is None:
            self.waits_for_room = True
            return
        free = self._dispatcher.free()
        scans = [
            LaneScan(known.lane, known.queue, room, self._floors.of(known.lane))
            for known, room in asked
        ]
        limit = min(sum(room for _, room in asked), self._config.claim_batch)
        self._lanes.ask(known for known, _ in asked)
        answer = await self._ask(node, scans, [free[scan.queue] for scan in scans], limit)
        self._hungry = len(answer.claims) == limit
        told = {each.lane: each for each in answer.lanes}
        open_gates: dict[str, None] = {}
        for known, room in asked:
            lane = told.get(known.lane)
            self._plan(known, lane, room)
            known.is_tight = lane is None or lane.blocked_by is not None
            if lane is not None and lane.taken and lane.blocked_by is None:
                open_gates |= dict.fromkeys(known.gates)
        self._lanes.answered()
        for gate in open_gates:
            # It let somebody in and is not full: others who wait for it may follow.
            self._lanes.open(gate)

    async def _ask(
        self, node: UUID, scans: Sequence[LaneScan], free: Sequence[int], limit: int
    ) -> GatedAnswer:
        request = GatedRequest(
            node, scans, free, limit, self._boost_interval, self._config.inline_args
        )
        try:
            answer = await self._store.claim_gated(request)
        except StoreUnavailable:
            # The claim may have been made although we were not told.
            self._claimer.on_lost_reply()
            raise
        if self._claimer.node_id == node:
            self._dispatcher.dispatch(answer.claims, node)
            self._floors.raise_to(answer.claims, scans)
        return answer

    def _plan(self, known: KnownLane, told: LaneAnswer | None, room: int) -> None:
        """Decide when a lane is asked again."""
        if told is None or known.heard:
            # Something happened while the claim was on its way: its answer is old.
            self._lanes.ready_at(known, 0.0)
        elif told.due_in is None:
            self._floors.forget_lane(known.lane)
            self._lanes.drop(known)
        elif told.retry_after is not None:
            self._lanes.ready_at(known, max(told.retry_after, told.due_in))
        elif told.blocked_by is not None:
            wait = max(self._recheck(), told.due_in)
            self._lanes.block(known, told.blocked_by, wait)
        elif told.due_in > 0:
            self._lanes.ready_at(known, told.due_in)
        elif told.taken < room:
            self._lanes.ready_at(known, self.runtime.uniform(*ASK_AGAIN))
        else:
            self._lanes.ready_at(known, 0.0)

    # Room

    def _rooms(self) -> Mapping[str, int]:
        """Return the room in each queue; while others are hungry too, half of it is theirs."""
        rooms = self._dispatcher.rooms()
        if not self._claimer.hungry:
            return rooms
        return {queue: room - room // 2 for queue, room in rooms.items()}

    def _shares(self, rooms: Mapping[str, int]) -> list[tuple[KnownLane, int]]:
        """Return whose turn it is, and how many jobs each may have: all room is given away."""
        of_queue: dict[str, list[KnownLane]] = {}
        chosen = 0
        for known in self._lanes.ready.values():
            lanes = of_queue.setdefault(known.queue, [])
            if len(lanes) < rooms[known.queue]:
                lanes.append(known)
                chosen += 1
                if chosen == AT_ONCE:
                    break
        asked = []
        for queue, lanes in of_queue.items():
            left, weight = rooms[queue], sum(known.weight for known in lanes)
            for known in lanes:
                share = min(max(left * known.weight // weight, 1), left)
                weight -= known.weight
                left -= share
                if share > 0:
                    asked.append((known, share))
        return asked

    def _take_turns(self) -> None:
        """Let the claimer of other lanes leave some room while there is none for these."""
        wants = self.waits_for_room and bool(self._lanes.ready)
        before = self._claimer.leave_room
        self._claimer.leave_room = self._leave_room if wants else None
        if before is not None and not wants:
            self._claimer.room_came()

    def _leave_room(self, rooms: dict[str, int]) -> dict[str, int]:
        """Return what is left of the room: half, and of a single slot every second one."""
        left = dict(rooms)
        for queue in {known.queue: None for known in self._lanes.ready.values()}:
            if rooms[queue] == 1:
                self._turns[queue] = not self._turns.get(queue, False)
                left[queue] = 0 if self._turns[queue] else 1
            else:
                left[queue] = rooms[queue] // 2
        return left

    # Time

    def _recheck(self) -> float:
        return (ALONE if self._alone else LOOK) * self.runtime.uniform(0.8, 1.0)

    def _until_next(self) -> float:
        now = self.runtime.monotonic()
        if self._lanes.ready and not self.waits_for_room:
            return 0.0
        moments = [self._look_at, *([self._tell_at] if self._untold else [])]
        if (first := self._lanes.first_due()) is not None:
            moments.append(first)
        return min(max(min(moments) - now, 0.001), FOREVER)

    async def _look(self) -> None:
        """Look at the next page of lanes, if jobs stand behind gates at all."""
        before = self.runtime.monotonic()
        if not self._gated:
            self._look_at = before + FOREVER
            return
        if self._lanes.full:
            self._look_at = before + self._recheck()
            return
        if not self._cursor:
            self._floors.forget()
        queues = list(self._claimer.lanes_by_queue)
        page = await self._store.gated_lanes(queues, self._cursor, PAGE)
        for found in page:
            if self._lanes.find(found.lane, found.due_in) and found.lane.endswith(SUSPECT):
                self.on_suspect()
        self._cursor = page[-1].lane if len(page) == PAGE else ""
        now = self.runtime.monotonic()
        pause = 0.0 if self._cursor else self._recheck()
        self._look_at = now + max(pause, REST * (now - before))
