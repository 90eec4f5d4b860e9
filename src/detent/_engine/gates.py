"""Claims jobs that stand behind gates: of limits, rates and fair shares.

All jobs behind the same gates stand in one lane. A lane whose gate is full is left alone until an
end of a job, the moment of a rate, or a poll says that it may be open; so what is blocked costs
nothing, however much of it there is. Of the others the most urgent comes first, and shares have
their turns: see `detent._engine.turns`.
"""

from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from datetime import timedelta
from functools import partial
from typing import Final
from uuid import UUID

from detent._engine.claim import GATHER, Claimer
from detent._engine.dispatch import Dispatcher
from detent._engine.floors import Floors, positions_in
from detent._engine.lanes import BATCH, ENDED, KnownLanes, is_shut
from detent._engine.look import rest_after
from detent._engine.service import Service
from detent._engine.turns import Turn, Turns, in_order
from detent.config import NodeConfig
from detent.errors import StoreUnavailable
from detent.events import Bus
from detent.model.gates import is_gated
from detent.model.job import SUSPECT, queue_of
from detent.model.limits import Limit
from detent.model.rescue import suspect_lane
from detent.spi.limits import GatedAnswer, GatedRequest, Head, LaneAnswer, LimitStore
from detent.spi.notifier import EVERYONE, Hint, Notifier, SignalHint, Wake
from detent.spi.runtime import Runtime
from detent.spi.scans import LaneScan

# How many lanes one claim asks.
AT_ONCE: Final = BATCH
PAGE: Final = 500
# Hints tell of lanes and of open gates; these looks are for hints that were lost.
LOOK: Final = 5.0
ALONE: Final = 1.0
# The pause between looks of a node that hears hints and has long seen no job behind a gate.
RARE_LOOK: Final = 20.0
# A short answer may only mean that somebody else holds the rows at this moment.
ASK_AGAIN: Final = (0.005, 0.020)
TELL: Final = 0.05


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
        self._lanes = KnownLanes(claimer.served.serves, runtime.monotonic)
        self._floors = Floors()
        self._cursor = ""
        self._look_at = 0.0
        self._stirred_at = runtime.monotonic()
        """When this node last knew of a job behind a gate."""
        self._alone = False
        self._limited: Collection[str] = ()
        self._turns = defaultdict[str, Turns](partial(Turns, boost_interval.total_seconds()))
        self._skips: dict[str, bool] = {}
        """Whether the last single slot of a queue was left to jobs without gates."""
        self._shut: dict[str, None] = {}
        """Queues that were paused, or whose own limit was reached."""
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
                    self._hear(wake.lane, wake.priority, came=wake.due_at is None)
                elif self._shut and wake.lane in self._shut:
                    # It may have been resumed.
                    del self._shut[wake.lane]
                    self._hear(wake.lane, ended=True)
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
            self._hear(lane, ended=True)
        if self._tell_at == 0.0:
            self._tell()

    def _tell(self) -> None:
        """Let other nodes know in which lanes jobs have ended."""
        self._tell_at = self.runtime.monotonic() + TELL
        lanes, self._untold = self._untold, {}
        if self._notifier is not None:
            self._notifier.publish([Hint(lane, ENDED) for lane in lanes])

    def hear_of(self, limited: Collection[str]) -> None:
        """Take what a heartbeat says: which queues have limits."""
        if list(limited) != list(self._limited):
            self._limited, self._look_at = tuple(limited), 0.0
            for lane in self._limited_lanes():
                self._hear(lane)
            self._claimer.look_anew()

    def _limited_lanes(self) -> list[str]:
        served = self._claimer.lanes_by_queue
        return [lane for queue in self._limited for lane in served.get(queue, ())]

    def rely_on_wakeups(self, hears: bool) -> None:
        """Know whether wake-ups reach this node."""
        self._alone = not hears
        self.wake()

    def forget(self) -> None:
        """Scan from the very beginning again."""
        self._floors.forget()

    def _hear(self, lane: str, priority: int | None = None, **what: bool) -> None:
        if self._lanes.hear(lane, priority, **what):
            if lane.endswith(SUSPECT):
                self.on_suspect()
            self.wake()

    def _look_soon(self) -> None:
        self._floors.forget()
        self._lanes.open_all()
        self._look_at, self._cursor = 0.0, ""
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
        with self._dispatcher.flights.claim({scan.queue: 1 for scan in scans}):
            answer = await self._ask(node, scans, [1] * len(scans), [0] * len(scans), 1)
        for told in answer.lanes:
            if told.due_in is None:
                self._lanes.suspects.pop(told.lane, None)

    async def _claim(self) -> None:
        """Ask for jobs of the lanes whose turn it is."""
        node = self._claimer.node_id
        rooms = self._rooms()
        asked = self._choose(rooms)
        if not asked or node is None:
            self.waits_for_room = True
            return
        free = self._dispatcher.free()
        scans = [
            LaneScan(turn.known.lane, turn.known.queue, turn.room, self._floors.of(turn.known.lane))
            for turn in asked
        ]
        wanted = {scan.queue: rooms[scan.queue] for scan in scans}
        limit = min(sum(wanted.values()), self._config.claim_batch)
        self._lanes.ask(turn.known for turn in asked)
        frees, leasts = [free[scan.queue] for scan in scans], [turn.least for turn in asked]
        with self._dispatcher.flights.claim(wanted):
            answer = await self._ask(node, scans, frees, leasts, limit)
        self._hungry = len(answer.claims) == limit
        told = {each.lane: each for each in answer.lanes}
        full = {each.blocked_by for each in answer.lanes}
        passed: dict[str, None] = {}
        for turn in asked:
            known, lane = turn.known, told.get(turn.known.lane)
            self._take_in(turn, lane)
            known.is_tight = lane is None or lane.blocked_by is not None
            if lane is not None and lane.taken:
                passed |= dict.fromkeys(gate for gate in known.gates if gate not in full)
        self._lanes.answered()
        for gate in passed:
            # It let somebody in and is not full: others who wait for it may follow.
            self._lanes.open(gate)

    async def _ask(
        self,
        node: UUID,
        scans: Sequence[LaneScan],
        free: Sequence[int],
        least: Sequence[int],
        limit: int,
    ) -> GatedAnswer:
        request = GatedRequest(
            node, scans, free, least, limit, self._boost_interval, self._config.inline_args
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

    def _take_in(self, turn: Turn, told: LaneAnswer | None) -> None:
        """Learn from an answer how urgent a lane is and what its weight is, and plan the next."""
        known = turn.known
        if told is not None:
            self._turns[known.queue].took(known, told.taken)
            known.weight = told.weight or known.own_weight
            self._lanes.told(known, self._since(told.head))
        if told is None or known.heard or (known.changed and not is_shut(told)):
            # Something happened while the claim was on its way.
            self._lanes.ready_at(known, 0.0)
        else:
            self._plan(turn, told)

    def _since(self, head: Head | None) -> tuple[int, float] | None:
        """Return a head with the moment since when it is due, by this node's clock."""
        if head is None:
            return None
        return head.priority, self.runtime.monotonic() - head.waited

    def _plan(self, turn: Turn, told: LaneAnswer) -> None:
        """Decide when a lane is asked again."""
        known, room = turn.known, turn.room
        if told.due_in is None:
            self._floors.forget_lane(known.lane)
            self._lanes.drop(known)
        elif told.blocked_by is not None:
            self._lanes.block(known, told, self._recheck())
            if told.blocked_by == known.gates[-1]:
                self._shut[known.queue] = None
        elif told.due_in > 0:
            self._lanes.ready_at(known, told.due_in)
        elif told.taken < room and not self._hungry and not self._is_below(turn):
            self._lanes.ready_at(known, self.runtime.uniform(*ASK_AGAIN))
        else:
            self._lanes.ready_at(known, 0.0)

    # Room

    def _rooms(self) -> Mapping[str, int]:
        """Return how many of each queue to ask for; while others are hungry, half is theirs."""
        rooms = self._dispatcher.rooms()
        if self._claimer.hungry:
            rooms = {queue: room - room // 2 for queue, room in rooms.items()}
        # One claim has something of each: the queue that comes first must not have all of it.
        most = -(-self._config.claim_batch // max(len(self._lanes.ready_queues), 1))
        return {queue: min(room, most) for queue, room in rooms.items()}

    def _choose(self, rooms: Mapping[str, int]) -> list[Turn]:
        """Return whose turn it is in each queue that has room."""
        queues = [queue for queue in self._lanes.ready_queues if rooms[queue] > 0]
        now, asked = self.runtime.monotonic(), list[list[Turn]]()
        for queue in queues:
            turns = self._turns[queue]
            lanes = self._lanes.ready_in(queue, partial(turns.precedes, now))
            most = max(AT_ONCE // len(queues), 1)
            alone, kept = len(queues) == 1, self._lanes.some_kept
            asked += [turns.choose(lanes, rooms[queue], most, now, alone=alone, others_wait=kept)]
        return in_order(asked, self._boost_interval.total_seconds(), now)

    def _is_below(self, turn: Turn) -> bool:
        """Tell whether what is left of a lane is less urgent than what was asked for."""
        level = self._turns[turn.known.queue].level(turn.known, self.runtime.monotonic())
        return level is not None and level < turn.least

    def _take_turns(self) -> None:
        """Let the claimer of other lanes leave some room while there is none for these."""
        wants = self.waits_for_room and self._lanes.ready
        before = self._claimer.leave_room
        self._claimer.leave_room = self._leave_room if wants else None
        if before is not None and not wants:
            self._claimer.room_came()

    def _leave_room(self, rooms: dict[str, int]) -> dict[str, int]:
        """Return what is left of the room: half, and of a single slot every second one."""
        left = dict(rooms)
        for queue in self._lanes.ready_queues:
            if rooms[queue] == 1:
                self._skips[queue] = not self._skips.get(queue, False)
                left[queue] = 0 if self._skips[queue] else 1
            else:
                left[queue] = rooms[queue] // 2
        return left

    # Time

    def _recheck(self, quiet: float = 0.0) -> float:
        """Return when to ask again: the later, the longer it has been `quiet`."""
        least, most = (ALONE, LOOK) if self._alone else (LOOK, RARE_LOOK)
        return min(max(quiet, least), most) * self.runtime.uniform(0.8, 1.0)

    def _until_next(self) -> float:
        now = self.runtime.monotonic()
        if self._lanes.ready and not self.waits_for_room:
            return 0.0
        moments = [self._look_at, *([self._tell_at] if self._untold else [])]
        if (first := self._lanes.first_due()) is not None:
            moments.append(first)
        return max(min(moments) - now, 0.001)

    async def _look(self) -> None:
        """Look at the next page of lanes.

        A look may walk over many dead rows, so it is never part of a claim or a heartbeat, and its
        share of the time is bounded.
        """
        before = self.runtime.monotonic()
        if not self._cursor:
            self._floors.forget()
            self._lanes.visit(self._limited_lanes())
        queues = list(self._claimer.lanes_by_queue)
        page = await self._store.gated_lanes(queues, self._cursor, PAGE, self._boost_interval)
        news = [
            found.lane
            for found in page
            if self._lanes.find(found.lane, found.due_in, self._since(found.head))
        ]
        if any(lane.endswith(SUSPECT) for lane in news):
            self.on_suspect()
        self._cursor = page[-1].lane if len(page) == PAGE else ""
        now = self.runtime.monotonic()
        if page or self._limited or self._lanes.any_known:
            self._stirred_at = now
        pause = 0.0 if self._cursor else self._recheck(now - self._stirred_at)
        # Of new ones nobody has told: there may be more, and slots that wait for them.
        rest = 0.0 if self._cursor and news else rest_after(now - before)
        self._look_at = now + max(pause, rest)
