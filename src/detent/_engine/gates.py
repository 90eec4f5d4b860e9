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

from detent._engine.beside import LentQueues
from detent._engine.claim import GATHER, Admit, Claimer
from detent._engine.dispatch import Dispatcher
from detent._engine.ended import EndedLanes
from detent._engine.floors import Floors, positions_in
from detent._engine.lanes import BATCH, KnownLanes, is_shut
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
        self._lent = LentQueues(claimer, self._lanes, self._floors, runtime.monotonic)
        self._shut: dict[str, None] = {}
        """Queues that were paused, or whose own limit was reached."""
        self._waits_for_room = False
        """Whether it wants to be woken when a slot becomes free."""
        self._ended = EndedLanes(notifier, runtime.monotonic)
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
                self._lent.heard(wake.lane)
                queue = queue_of(wake.lane)
                if is_gated(wake.lane) or queue in self._lent or queue in self._limited:
                    self._hear(wake.lane, wake.priority, came=wake.due_at is None)
                elif self._shut and wake.lane in self._shut:
                    # It may have been resumed.
                    del self._shut[wake.lane]
                    self._hear(wake.lane, ended=True)
            elif isinstance(wake, SignalHint) and wake.node == EVERYONE:
                # A limit may have been changed.
                self._lanes.open_all()
                self.wake()

    def room_came(self) -> None:
        """A slot is free, or a claim is over."""
        if self._waits_for_room:
            self.wake()

    def ask(self, queues: Iterable[str]) -> None:
        """Something may have come, or be due soon, in some queues."""
        for queue in queues:
            for lane in self._claimer.lanes_by_queue[queue]:
                self._lent.heard(lane)
                if queue in self._lent:
                    self._hear(lane)

    def released(self, lanes: Iterable[str]) -> None:
        """Ends of this node's own jobs are written: others may be let in, here or elsewhere."""
        for lane in lanes:
            # Where gates were wide open just now nobody is likely to wait.
            self._ended.add(lane, awaited=self._lanes.is_tight(lane))
            self._hear(lane, ended=True)
        self._ended.tell()

    def hear_of(self, limited: Collection[str]) -> None:
        """Take what a heartbeat says: which queues have limits."""
        if list(limited) != list(self._limited):
            self._limited, self._look_at = tuple(limited), 0.0
            self._lanes.limit(self._limited)
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
        self._ended.tell()
        if self.runtime.monotonic() >= self._look_at:
            await self._look()
        self._lanes.come_due()
        self._borrow()
        self._waits_for_room = False
        if self._lanes.ready and not self._claimer.able:
            self._waits_for_room = True
            return 1.0
        if self._lanes.ready:
            if self._hungry and sum(self._rooms().values()) < self._enough:
                # Others will be free in a moment; until then there is no hurry.
                await self.runtime.sleep(GATHER)
            await self._claim()
        self._lent.give_back()
        return self._until_next()

    async def prepare(self) -> None:
        """Know what stands behind gates before the first claim, so that it is one in order."""
        await self._look()
        self._lanes.come_due()
        self._borrow()

    def on_trouble(self, error: Exception) -> None:
        """Let jobs without gates be claimed while those behind gates cannot be."""
        self._lent.give_back(also_ready=True)

    def _borrow(self) -> None:
        """Claim all jobs of those queues here in which lanes with gates are ready: in one order."""
        self._lent.borrow([each for each in self._lanes.ready_queues if each not in self._limited])

    async def declare(self) -> None:
        """Make sure that the store knows the limits that are written in code."""
        if self._undeclared:
            await self._store.declare_limits(self._undeclared)
            self._undeclared = ()

    async def claim_suspects(self, most: int, rooms: Mapping[str, int], admit: Admit) -> None:
        """Claim jobs that may have killed their node, as many as the node may take at most."""
        by_queue, node = self._claimer.lanes_by_queue, self._claimer.node_id
        lanes = [suspect_lane(lane) for queue in self._limited for lane in by_queue.get(queue, ())]
        scans = [
            LaneScan(lane, queue, min(most, rooms[queue]))
            for lane, queue in ((lane, queue_of(lane)) for lane in [*self._lanes.suspects, *lanes])
            if rooms.get(queue, 0) > 0
        ][:AT_ONCE]
        if not scans or node is None:
            return
        free, least = [scan.room for scan in scans], [0] * len(scans)
        with self._dispatcher.flights.claim({scan.queue: scan.room for scan in scans}):
            answer = await self._ask(node, scans, free, least, most, admit)
        for told in answer.lanes:
            if told.due_in is None:
                self._lanes.suspects.pop(told.lane, None)

    async def _claim(self) -> None:
        """Ask for jobs of the lanes whose turn it is."""
        node = self._claimer.node_id
        rooms = self._rooms()
        asked = self._choose(rooms)
        if not asked or node is None:
            self._waits_for_room = True
            return
        scans = [
            LaneScan(
                known.lane, known.queue, room, self._lent.floors_of(known.beside).of(known.lane)
            )
            for known, room, _ in asked
        ]
        free = self._dispatcher.free([scan.queue for scan in scans])
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
        admit: Admit | None = None,
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
            self._dispatcher.dispatch(admit(answer.claims) if admit else answer.claims, node)
            self._lent.raise_floors(answer.claims, scans)
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
            if known.beside:
                self._lent.found_empty(known.lane)
            else:
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
        """Return how many of each queue with lanes that are ready to ask for."""
        queues = self._lanes.ready_queues
        # One claim has something of each: the queue that comes first must not have all of it.
        most = -(-self._config.claim_batch // max(len(queues), 1))
        return {queue: min(room, most) for queue, room in self._dispatcher.rooms(queues).items()}

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

    # Time

    def _recheck(self, quiet: float = 0.0) -> float:
        """Return when to ask again: the later, the longer it has been `quiet`."""
        least, most = (ALONE, LOOK) if self._alone else (LOOK, RARE_LOOK)
        return min(max(quiet, least), most) * self.runtime.uniform(0.8, 1.0)

    def _until_next(self) -> float:
        now = self.runtime.monotonic()
        if self._lanes.ready and not self._waits_for_room:
            return 0.0
        moments = (self._look_at, self._ended.next_at, self._lanes.first_due())
        return max(min(each for each in moments if each is not None) - now, 0.001)

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
