"""Claims jobs that stand behind gates: of limits, rates and fair shares.

All jobs behind the same gates stand in one lane. A lane whose gate is full is left alone until an
end of a job, the moment of a rate, or a poll says that it may be open; so what is blocked costs
nothing, however much of it there is. Of the others the most urgent comes first, and shares have
their turns: see `detent._engine.turns`.
"""

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from datetime import timedelta
from typing import Final
from uuid import UUID

from detent._engine.beside import LentQueues
from detent._engine.choice import Choice, in_runs
from detent._engine.claim import GATHER, Admit, Claimer
from detent._engine.dispatch import Dispatcher
from detent._engine.ended import EndedLanes
from detent._engine.find_lanes import LaneFinder
from detent._engine.floors import Floors, positions_in
from detent._engine.lane import keys_of
from detent._engine.lanes import BATCH, ENDED, KnownLanes
from detent._engine.permits import GateStore
from detent._engine.service import Service
from detent._engine.turns import Turn
from detent._engine.whole import WholeClaims
from detent.config import NodeConfig
from detent.errors import StoreUnavailable
from detent.events import Bus
from detent.model.gates import KEY, is_gated
from detent.model.job import SUSPECT, queue_of
from detent.model.limits import Limit
from detent.model.rescue import suspect_lane
from detent.spi.limits import GatedAnswer, GatedRequest, LaneAnswer
from detent.spi.notifier import EVERYONE, Hint, Notifier, SignalHint, Wake
from detent.spi.runtime import Runtime
from detent.spi.scans import LaneScan

# How many lanes one claim asks.
AT_ONCE: Final = BATCH
# A short answer may only mean that somebody else holds the rows at this moment.
ASK_AGAIN: Final = (0.005, 0.020)


class GatedClaimer(Service):
    """Claims from the lanes that have gates, and from all lanes of queues that have a limit."""

    name = "gates"

    def __init__(  # noqa: PLR0913  what it is made of, each by its name
        self,
        runtime: Runtime,
        bus: Bus,
        store: GateStore,
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
        self._finder = LaneFinder(runtime, store, self._lanes, boost_interval)
        self._limited: Collection[str] = ()
        self._choice = Choice(
            self._lanes,
            dispatcher,
            batch=config.claim_batch,
            boost=boost_interval.total_seconds(),
            monotonic=runtime.monotonic,
        )
        self._whole = WholeClaims(
            runtime,
            store,
            claimer=claimer,
            dispatcher=dispatcher,
            lanes=self._lanes,
            choice=self._choice,
            config=config,
            boost_interval=boost_interval,
        )
        self._whole.recheck = self._finder.recheck
        self._whole.on_given_up = self._finder.soon
        self._lent = LentQueues(claimer, self._lanes, self._floors, runtime.monotonic)
        self._shut: dict[str, None] = {}
        """Queues that were paused, or whose own limit was reached."""
        self._whole.on_paused = self._shut.setdefault
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
        positions = positions_in(wakes)
        self._floors.lower_to(positions)
        self._lanes.families.lower_to(positions)
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
                self._lanes.families.end_rests()
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
        ended: dict[str, dict[str, None]] = {}
        for lane in lanes:
            ended.setdefault(self._lanes.families.resolve(lane), {})[lane] = None
        for lane, named in ended.items():
            # Where gates were wide open just now nobody is likely to wait.
            self._ended.add(named, awaited=self._lanes.is_tight(lane))
            self._hear(lane, ended=True)
            if lane not in named and self._lanes.open_any(keys_of(named)):
                self.wake()
        self._ended.tell()

    def hear_of(self, limited: Collection[str]) -> None:
        """Take what a heartbeat says: which queues have limits."""
        if list(limited) != list(self._limited):
            self._limited, self._finder.next_at = tuple(limited), 0.0
            self._lanes.limit(self._limited)
            for lane in self._limited_lanes():
                self._hear(lane)
            self._claimer.look_anew()

    def _limited_lanes(self) -> list[str]:
        served = self._claimer.lanes_by_queue
        return [lane for queue in self._limited for lane in served.get(queue, ())]

    def rely_on_wakeups(self, hears: bool) -> None:
        """Know whether wake-ups reach this node."""
        self._finder.alone = not hears
        self.wake()

    def forget(self) -> None:
        """Scan from the very beginning again."""
        self._floors.forget()
        self._lanes.families.forget_floors()

    def _hear(self, lane: str, priority: int | None = None, **what: bool) -> None:
        if lane[-1] == KEY and self._lanes.hear_family(lane) and priority != ENDED:
            self._finder.soon()
        if self._lanes.hear(lane, priority, **what):
            if lane.endswith(SUSPECT):
                self.on_suspect()
            self.wake()

    def _look_soon(self) -> None:
        self.forget()
        self._lanes.open_all()
        self._finder.soon()
        self.wake()

    # Claiming

    async def run_once(self) -> float:
        """Look for lanes if it is time to, and claim once."""
        await self.declare()
        self._ended.tell()
        if self.runtime.monotonic() >= self._finder.next_at:
            await self._look()
        self._lanes.come_due()
        self._borrow()
        self._waits_for_room = False
        if self._lanes.ready and not self._claimer.able:
            self._waits_for_room = True
            return 1.0
        if self._lanes.ready:
            if self._hungry and sum(self._choice.rooms().values()) < self._enough:
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
        # The next run asks the store in any case: without a question there is no answer.
        self._finder.next_at = 0.0

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
        rooms = self._choice.rooms()
        asked = self._choice.choose(rooms)
        if not asked or node is None:
            self._waits_for_room = True
            return
        left = {turn.known.queue: rooms[turn.known.queue] for turn in asked}
        limit = min(sum(left.values()), self._config.claim_batch)
        self._lanes.ask(turn.known for turn in asked)
        for turns in in_runs(asked):
            if limit <= 0:
                # What is more urgent has all the room; these are ready still.
                break
            if turns[0].known.is_whole:
                queue = turns[0].known.queue
                room = min(turns[0].room, left[queue], limit)
                count = await self._whole.claim(node, turns[0], room)
                taken: Mapping[str, int] = {queue: count}
            else:
                taken = await self._claim_from(node, turns, left, limit)
            for queue, count in taken.items():
                left[queue] -= count
                limit -= count
            self._hungry = limit <= 0
        self._lanes.answered()

    async def _claim_from(
        self, node: UUID, asked: Sequence[Turn], left: Mapping[str, int], limit: int
    ) -> Mapping[str, int]:
        """Claim from some lanes, and return how many of each queue there were."""
        scans = [
            LaneScan(
                known.lane,
                known.queue,
                min(room, left[known.queue]),
                self._lent.floors_of(known.beside).of(known.lane),
            )
            for known, room, _ in asked
        ]
        free = self._dispatcher.free([scan.queue for scan in scans])
        wanted = {scan.queue: left[scan.queue] for scan in scans}
        limit = min(sum(wanted.values()), limit)
        frees, leasts = [free[scan.queue] for scan in scans], [turn.least for turn in asked]
        with self._dispatcher.flights.claim(wanted):
            answer = await self._ask(node, scans, frees, leasts, limit)
        self._hungry = len(answer.claims) == limit
        told = {each.lane: each for each in answer.lanes}
        full = {each.blocked_by for each in answer.lanes}
        passed: dict[str, None] = {}
        taken = dict.fromkeys(wanted, 0)
        for turn in asked:
            known, lane = turn.known, told.get(turn.known.lane)
            self._take_in(turn, lane)
            known.is_tight = lane is None or lane.blocked_by is not None
            if lane is not None and lane.taken:
                taken[known.queue] += lane.taken
                passed |= dict.fromkeys(gate for gate in known.gates if gate not in full)
        for gate in passed:
            # It let somebody in and is not full: others who wait for it may follow.
            self._lanes.open(gate)
        return taken

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
            self._choice.took(known, told.taken)
            known.weight = told.weight or known.own_weight
            self._lanes.told(known, self._finder.since(told.head))
        if not self._lanes.is_known(known):
            return
        if told is None or known.heard or (known.changed and not is_shut(told)):
            # Something happened while the claim was on its way.
            self._lanes.ready_at(known, 0.0)
        else:
            self._plan(turn, told)

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
            self._lanes.block(known, told, self._finder.recheck())
            if told.blocked_by == known.gates[-1]:
                self._shut[known.queue] = None
        elif told.due_in > 0:
            self._lanes.ready_at(known, told.due_in)
        elif told.taken < room and not self._hungry and not self._choice.is_below(turn):
            self._lanes.ready_at(known, self.runtime.uniform(*ASK_AGAIN))
        else:
            self._lanes.ready_at(known, 0.0)

    # Time

    def _until_next(self) -> float:
        now = self.runtime.monotonic()
        if self._lanes.ready and not self._waits_for_room:
            return 0.0
        moments = (self._finder.next_at, self._ended.next_at, self._lanes.first_due())
        return max(min(each for each in moments if each is not None) - now, 0.001)

    async def _look(self) -> None:
        """Look at the next page of lanes."""
        if self._finder.is_at_the_beginning:
            self.forget()
            self._lanes.visit(self._limited_lanes())
        queues = self._claimer.lanes_by_queue
        if await self._finder.look(queues, stirred=bool(self._limited)):
            self.on_suspect()


def is_shut(told: LaneAnswer) -> bool:
    """Tell whether jobs of a lane are due, and a gate keeps them out: no other job changes that."""
    return told.blocked_by is not None and told.due_in == 0
