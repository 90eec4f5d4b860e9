"""Asks the store for work: as much as there is room for, and no more."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import Final
from uuid import UUID

from detent._engine.dispatch import Dispatcher
from detent._engine.floors import Floors, positions_in
from detent._engine.polling import Polling
from detent._engine.responders import Responders
from detent._engine.served import ServedLanes
from detent._engine.service import Service
from detent.config import NodeConfig, PollingConfig
from detent.errors import StoreUnavailable
from detent.events import Bus
from detent.spi.notifier import Hint, Wake
from detent.spi.runtime import Runtime
from detent.spi.scans import LaneScan
from detent.spi.store import ClaimRequest, ClaimStore

# With a full queue behind it, a small claim waits this long for more room: batches are cheap.
GATHER: Final = 0.002
# A short answer may only mean that somebody else holds the rows at this moment.
ASK_AGAIN: Final = (0.005, 0.020)
# Rows that somebody keeps locked for long are left to the next poll after so many tries.
MISSES: Final = 50
FOREVER: Final = 3_600.0
# A claim locks as many rows of each lane of a queue as there is room for, and leaves all but the
# best: of more lanes than this it asks for less at once.
LANES: Final = 4
BEGINNING: Final = datetime.min.replace(tzinfo=UTC)


class Claimer(Service):
    """Claims jobs for the dispatcher.

    Claims again at once while batches come back full; else waits for a wake-up, for room, or for
    the next poll.
    """

    name = "claimer"

    def __init__(
        self,
        runtime: Runtime,
        bus: Bus,
        store: ClaimStore,
        *,
        dispatcher: Dispatcher,
        responders: Responders,
        config: NodeConfig,
        polling: PollingConfig,
        boost_interval: timedelta,
    ) -> None:
        super().__init__(runtime, bus)
        self._store = store
        self._dispatcher = dispatcher
        self._responders = responders
        self._config = config
        self._boost_interval = boost_interval
        self._polling = Polling(polling, runtime.monotonic())
        self.served = ServedLanes(config.slots(), config.capabilities)
        self._enough = min(config.claim_batch, sum(config.slots().values())) // 4
        self._turn = 0
        self._poll_planned = False
        self.stirred = True
        """Whether something has been going on since this was last set to False."""
        self._hungry = False
        self._waits_for_room = False
        self.leave_room: Callable[[dict[str, int]], dict[str, int]] | None = None
        """What others are to have of the room; None while nobody else wants any."""
        self._asked: list[LaneScan] = []
        self._misses = 0
        self.floors = Floors()
        self.node_id: UUID | None = None
        self.may_claim: Callable[[], bool] = lambda: True
        self.on_lost_reply: Callable[[], None] = lambda: None
        self.store_time: Callable[[], datetime] = lambda: BEGINNING
        """A moment of the store's clock that has passed, and not long ago."""

    @property
    def lanes(self) -> Sequence[str]:
        """All lanes without gates that this node serves and knows of."""
        return self.served.all

    @property
    def lanes_by_queue(self) -> Mapping[str, Sequence[str]]:
        """The same by queue."""
        return self.served.by_queue

    @property
    def hungry(self) -> bool:
        """Whether the last claim was full, so that more is surely there."""
        return self._hungry

    @property
    def able(self) -> bool:
        """Whether the node may claim at all."""
        return self.node_id is not None and self.may_claim()

    def receive(self, wakes: Sequence[Wake]) -> None:
        """Take wake-ups from the notifier; nothing in them means that some may be missing."""
        if not wakes:
            self.floors.forget()
        self.floors.lower_to(positions_in(wakes))
        heard = [self.served.hear(wake.lane) for wake in wakes if isinstance(wake, Hint)]
        if not wakes or any(heard):
            self._polling.woken()
            self.wake()

    def learn_lanes(self, lanes: Iterable[str]) -> None:
        """Take in a look at the lanes of jobs that need something."""
        new, gone = self.served.found(lanes)
        for lane in gone:
            self.floors.forget_lane(lane)
        if new:
            self.wake()

    def rely_on_wakeups(self, hears: bool) -> None:
        """Know whether wake-ups reach this node: without them it must not sleep for long."""
        self._polling.alone = not hears

    def look_anew(self) -> None:
        """Jobs may stand anywhere now: scan from the beginning, soon."""
        self.floors.forget()
        self._polling.woken()
        self.wake()

    def room_came(self) -> None:
        """A slot became free."""
        if self._waits_for_room:
            self.wake()

    async def run_once(self) -> float:
        """Claim once."""
        quiet = self._poll_planned and not self.woken
        if quiet:
            # Nothing is going on, so this look can afford to begin at the very beginning.
            self.floors.forget()
        self.stirred |= self.woken
        self._poll_planned = False
        rooms = self._rooms()
        room = sum(rooms.values())
        if room == 0 or not self.able:
            self._waits_for_room = True
            return FOREVER if room == 0 and self.node_id is not None else 1.0
        limit = min(room, self._config.claim_batch)
        if self._hungry and limit < self._enough:
            # Others will be free in a moment; until then there is no hurry.
            await self.runtime.sleep(GATHER)
            rooms = self._rooms()
            limit = min(sum(rooms.values()), self._config.claim_batch)
            if limit == 0:
                # How much may wait here follows from the pace, which has fallen meanwhile.
                self._waits_for_room = True
                return FOREVER
        # A queue that is full now, or will be by this claim, is asked for when it has room again.
        self._waits_for_room = not all(rooms.values())
        moment = self.store_time()
        scans = self._scans(rooms)
        if quiet and (due := await self._first_due(scans)) != 0:
            # One statement for a look that finds nothing, and nothing is written.
            return self._next_look(0, limit, moment, due)
        answering = self._responders.take()
        taken = await self.claim(scans, limit)
        self._waits_for_room |= not all(self._dispatcher.rooms().values())
        self.stirred |= taken > 0
        self._hungry = taken == limit
        if self._hungry:
            return 0.0
        due = await self._due_after_start()
        if due != 0:
            self._responders.answered(answering)
        return self._next_look(taken, limit, moment, due)

    def _rooms(self) -> dict[str, int]:
        rooms = self._dispatcher.rooms()
        if self.served.may_grow:
            lanes = self.served.by_queue
            rooms = {queue: _bounded(room, len(lanes[queue])) for queue, room in rooms.items()}
        return rooms if self.leave_room is None else self.leave_room(rooms)

    async def claim(self, scans: Sequence[LaneScan], limit: int) -> int:
        """Claim jobs of these lanes and dispatch them; return how many."""
        node = self.node_id
        if node is None:
            return 0
        request = ClaimRequest(
            node=node,
            scans=scans,
            limit=limit,
            boost_interval=self._boost_interval,
            inline_args=self._config.inline_args,
        )
        with self._dispatcher.flights.claim({scan.queue: scan.room for scan in scans}):
            try:
                claims = await self._store.claim_jobs(request)
            except StoreUnavailable:
                # The claim may have been made although we were not told.
                self.on_lost_reply()
                raise
            if self.node_id != node:
                return 0
            self._dispatcher.dispatch(claims, node)
        self.floors.raise_to(claims, request.scans)
        return len(claims)

    def _scans(self, rooms: Mapping[str, int]) -> list[LaneScan]:
        """Return what to look at, another queue first each time so that all get their turn."""
        known = self.served.by_queue
        queues = [queue for queue in known if rooms[queue] > 0]
        self._turn += 1
        turn = self._turn % len(queues)
        scans = []
        for queue in queues[turn:] + queues[:turn]:
            scans += [
                LaneScan(lane, queue, rooms[queue], self.floors.of(lane)) for lane in known[queue]
            ]
        self._asked = scans
        return scans

    async def _due_after_start(self) -> float | None:
        """Return in how long the next job is due, once what was claimed has started.

        To ask takes a good part of the time that a lone job waits.
        """
        await self.runtime.sleep(0)
        return await self._first_due(self._asked)

    async def _first_due(self, scans: Sequence[LaneScan]) -> float | None:
        return min((await self._store.next_due(scans)).values(), default=None)

    def _next_look(self, taken: int, limit: int, moment: datetime, due: float | None) -> float:
        """Return how long to wait when so much was taken and the next job is due then."""
        self._misses = 0 if taken else self._misses + 1
        now = self.runtime.monotonic()
        pause = self._polling.next_pause(taken, limit, self._dispatcher.load, now)
        pause *= self.runtime.uniform(0.8, 1.0)
        if due != 0 and not self._wakeup.pending:
            # Nothing is left in these lanes that was due before this claim.
            self.floors.learn([scan.lane for scan in self._asked], (), moment)
        if due is None or due > pause:
            self._poll_planned = True
            return pause
        if due > 0:
            return due
        # Something is due that we did not get: it came just now, or another holds it.
        return self.runtime.uniform(*ASK_AGAIN) if self._misses < MISSES else pause


def _bounded(room: int, lanes: int) -> int:
    """Return how many jobs to ask of a queue with so many lanes in one claim."""
    return room if lanes <= LANES else max(room * LANES // lanes, 1)
