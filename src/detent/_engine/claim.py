"""Asks the store for work: as much as there is room for, and no more."""

from collections import Counter, deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import Final
from uuid import UUID

from detent._engine.agenda import Agenda
from detent._engine.dispatch import Dispatcher
from detent._engine.floors import Floors, positions_in
from detent._engine.polling import Polling
from detent._engine.responders import Responders, is_lone
from detent._engine.served import ServedLanes
from detent._engine.service import Service
from detent.config import NodeConfig, PollingConfig
from detent.errors import StoreUnavailable
from detent.events import Bus
from detent.model.job import Claim, queue_of
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
# A poll looks at so many queues at once; polls of more than that may take 5 % of the time.
PAGE: Final = 250
REST: Final = 20
LONGEST_REST: Final = 10.0
BEGINNING: Final = datetime.min.replace(tzinfo=UTC)

# Returns those of some claims that may begin.
Admit = Callable[[Sequence[Claim]], Sequence[Claim]]


class Claimer(Service):
    """Claims jobs for the dispatcher, of those queues in which something may be due.

    Claims again at once while batches come back full; else waits for a wake-up, for room, for the
    next job to become due, or for the next poll. A poll looks at all queues with one statement, and
    what it finds is claimed.
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
        self._agenda = Agenda(config.slots())
        slots = config.slots().values()
        self._plenty = 2 * config.claim_batch * len(slots) // max(sum(slots), 1) + 1
        """So many queues have the slots for two claims."""
        self._lent: dict[str, bool] = {}
        """Queues that are claimed from elsewhere at present, and whether something was heard."""
        self._poll_at = float("inf")
        """When to look at all queues; at the start all of them are asked."""
        self._is_quiet = False
        """Whether nothing has been going on since the last poll began."""
        self._queues = deque(config.slots())
        """All queues, in the order in which polls look at them."""
        self._unseen = 0
        """At how many of them the poll that goes on has not looked."""
        self._from_beginning = False
        """Whether it looks behind all floors."""
        self._unable = False
        self.stirred = True
        """Whether something has been going on since this was last set to False."""
        self._hungry = False
        """Whether the last claim was full, so that more is surely there."""
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
    def able(self) -> bool:
        """Whether the node may claim at all."""
        return self.node_id is not None and self.may_claim()

    # What it hears

    def receive(self, wakes: Sequence[Wake]) -> None:
        """Take wake-ups from the notifier; nothing in them means that some may be missing."""
        if not wakes:
            self.look_anew()
            return
        self.floors.lower_to(positions_in(wakes))
        heard = [self.served.hear(wake.lane) for wake in wakes if isinstance(wake, Hint)]
        if queues := [queue for queue in heard if queue is not None]:
            self._polling.woken(lone=all(map(is_lone, wakes)))
            self.ask(queues)

    def ask(self, queues: Iterable[str]) -> None:
        """Something may have come, or be due soon, in some queues."""
        self._agenda.ask(queues)
        self._is_quiet = False
        self.stirred = True
        self.wake()

    def learn_lanes(self, lanes: Iterable[str]) -> None:
        """Take in a look at the lanes of jobs that need something."""
        new, gone = self.served.found(lanes)
        for lane in gone:
            self.floors.forget_lane(lane)
        if new:
            self.ask(dict.fromkeys(map(queue_of, new)))

    def rely_on_wakeups(self, hears: bool) -> None:
        """Know whether wake-ups reach this node: without them it must not sleep for long."""
        self._polling.alone = not hears

    def look_anew(self) -> None:
        """Jobs may stand anywhere now: scan from the beginning, soon."""
        self.floors.forget()
        self._polling.woken()
        self.poll_soon()

    def poll_soon(self) -> None:
        """Look at all queues as soon as possible."""
        self._poll_at = float("-inf")
        self._unseen = len(self._queues)
        self.wake()

    def room_came(self, queue: str | None = None) -> None:
        """A slot of a queue became free, or with None any may have."""
        if self._agenda.room_came(queue):
            self.wake()

    def able_again(self) -> None:
        """Ends have been written: if that was what kept the node from claiming, it may go on."""
        if self._unable:
            self.wake()

    # What others claim from

    def lend(self, queue: str) -> None:
        """Let jobs of a queue be claimed elsewhere, in one order with others, until it is back."""
        self._lent[queue] = False

    def take_back(self, queue: str, moment: float | None) -> None:
        """Claim from a queue again, at a moment; None if nothing stood in it."""
        heard = self._lent.pop(queue)
        if heard or (moment is not None and moment <= self.runtime.monotonic()):
            self.ask([queue])
        elif moment is not None:
            self._agenda.ask_at(queue, moment)
            self.wake()

    # Claiming

    async def run_once(self) -> float:
        """Claim once, from the queues of which something was heard."""
        self._unable = not self.able
        if self._unable:
            return self.unasked(1.0)
        now = self.runtime.monotonic()
        self._agenda.come_due(now)
        has_polled = now >= self._poll_at and await self._poll()
        # Where each has plenty a few queues fill a claim, and asking the others would only cost.
        most = self._plenty if self._hungry else None
        rooms = self._rooms(self._agenda.first(most))
        if self._hungry and rooms and self._limit(rooms) < self._enough:
            # Others will be free in a moment; until then there is no hurry.
            await self.runtime.sleep(GATHER)
            rooms = self._rooms(self._agenda.first(most))
        if not rooms:
            return self._until_next() if has_polled else self.unasked(self._until_next())
        whole = has_polled or len(rooms) == len(self.served.by_queue)
        return await self._claim_from(rooms, whole=whole)

    def _limit(self, rooms: Mapping[str, int]) -> int:
        return min(sum(rooms.values()), self._config.claim_batch)

    def _rooms(self, queues: Sequence[str]) -> dict[str, int]:
        """Return the room of those queues that have any; the others are asked when they have."""
        mine = []
        for queue in queues:
            if queue in self._lent:
                self._lent[queue] = True
                self._agenda.done([queue])
            else:
                mine.append(queue)
        rooms = {}
        # How fast jobs end is measured from one call to the next: none without need.
        for queue, room in self._dispatcher.rooms(mine).items() if mine else ():
            if room > 0:
                rooms[queue] = self.served.bounded(queue, room)
            else:
                self._agenda.wait_for_room(queue)
        return rooms

    async def _claim_from(self, rooms: Mapping[str, int], *, whole: bool) -> float:
        """Claim from some queues, or from the `whole` of them, and plan what comes next."""
        moment, limit, scans = self.store_time(), self._limit(rooms), self._scans(rooms)
        answering = [token for token in self._responders.take() if queue_of(token[0]) in rooms]
        self._agenda.done(rooms)
        try:
            taken = await self._take(scans, limit)
        except BaseException:
            self._agenda.ask(rooms)
            raise
        count = sum(taken.values())
        lone = 0 < count <= len(answering)
        self.stirred |= count > 0
        self._is_quiet &= count == 0
        self._hungry = count == limit
        if self._hungry:
            last = next(queue for queue in reversed(list(rooms)) if taken[queue])
            self._agenda.ask_in_turn(list(rooms), last)
            return 0.0
        # Of a queue that gave as much as it could there may be more.
        self._agenda.ask(queue for queue, room in rooms.items() if taken[queue] >= room)
        # What was claimed starts first: to ask for the next due time takes a good part of the
        # time that a lone job waits.
        await self.runtime.sleep(0)
        # A claim that was not full left nothing. Other nodes are told before anything else is
        # asked: until then each of them comes nearer to claiming too.
        left = self._responders.answer(answering, lambda each: 0 < taken[each] < rooms[each])
        self._misses = 0 if count else self._misses + 1
        due = await self._store.next_due(scans)
        self._responders.answer(left, lambda queue: due.get(queue) != 0)
        self._plan(scans, due, moment, claimed=True)
        self._plan_poll(count, limit, whole=whole, lone=lone)
        return self._until_next()

    async def _take(self, scans: Sequence[LaneScan], limit: int) -> Counter[str]:
        """Claim, and return how many jobs of each queue there were."""
        claims = await self._claim(scans, limit)
        if len(scans) == 1:
            return Counter({scans[0].queue: len(claims)})
        taken = Counter(claim.lane for claim in claims)
        queues = Counter[str]()
        for lane, count in taken.items():
            queues[queue_of(lane)] += count
        return queues

    async def claim(self, scans: Sequence[LaneScan], limit: int, admit: Admit | None = None) -> int:
        """Claim jobs of these lanes and dispatch them; return how many.

        Claims that `admit` leaves out are not dispatched here: `admit` takes them over.
        """
        return len(await self._claim(scans, limit, admit))

    async def _claim(
        self, scans: Sequence[LaneScan], limit: int, admit: Admit | None = None
    ) -> Sequence[Claim]:
        node = self.node_id
        if node is None:
            return ()
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
                return ()
            self._dispatcher.dispatch(claims if admit is None else admit(claims), node)
        self.floors.raise_to(claims, request.scans)
        return claims

    def _scans(self, rooms: Mapping[str, int]) -> list[LaneScan]:
        """Return what to look at in some queues."""
        known, floors = self.served.by_queue, self.floors
        return [
            LaneScan(lane, queue, room, floors.of(lane))
            for queue, room in rooms.items()
            for lane in known[queue]
        ]

    # What comes next

    async def _poll(self) -> bool:
        """Look at the next page of queues: one statement, and nothing is written.

        Return whether it was the last one: then all queues have been looked at.
        """
        moment, before = self.store_time(), self.runtime.monotonic()
        page = self._next_page()
        rooms = self._rooms(
            [
                queue
                for queue in page
                if queue not in self._lent and not self._agenda.waits_for_room(queue)
            ]
        )
        scans = self._scans(rooms)
        self._agenda.done(rooms)
        if not scans:
            self.unasked(0.0)  # they are lent to others, or have no room
        try:
            due = await self._store.next_due(scans) if scans else {}
        except BaseException:
            self._agenda.ask(rooms)
            raise
        self._plan(scans, due, moment, claimed=False)
        now = self.runtime.monotonic()
        self._poll_at = now + min(REST * (now - before), LONGEST_REST)
        if self._unseen:
            return False
        rest_until = self._poll_at if len(self._queues) > PAGE else now
        self._plan_poll(0, max(self._limit(rooms), 1), whole=True)
        self._poll_at = max(self._poll_at, rest_until)
        return True

    def _next_page(self) -> Sequence[str]:
        """Return the queues to look at next: a poll of very many would hold up the event loop."""
        if not self._unseen:
            self._unseen = len(self._queues)
            self._from_beginning, self._is_quiet = self._is_quiet, True
        page = [self._queues[each] for each in range(min(PAGE, self._unseen))]
        self._queues.rotate(-len(page))
        self._unseen -= len(page)
        if self._from_beginning:
            # Nothing is going on, so this look can afford to begin at the very beginning.
            for lane in [lane for queue in page for lane in self.served.by_queue[queue]]:
                self.floors.forget_lane(lane)
        return page

    def _plan(
        self,
        scans: Sequence[LaneScan],
        due: Mapping[str, float],
        moment: datetime,
        *,
        claimed: bool,
    ) -> None:
        """Put down when each of the queues that were asked after `moment` is to be asked again."""
        now = self.runtime.monotonic()
        for queue, seconds in due.items():
            if seconds > 0:
                self._agenda.ask_at(queue, now + seconds)
            elif not claimed:
                self._agenda.ask([queue])
            elif self._misses < MISSES:
                # It came just now, or another holds it.
                self._agenda.ask_at(queue, now + self.runtime.uniform(*ASK_AGAIN))
        if not self._wakeup.pending:
            # Nothing is left in these lanes that was due before.
            empty = [scan.lane for scan in scans if due.get(scan.queue) != 0]
            self.floors.learn(empty, (), moment)

    def _plan_poll(self, taken: int, limit: int, *, whole: bool, lone: bool = False) -> None:
        """Plan the next look at all queues; what was asked of some puts it off for none."""
        now = self.runtime.monotonic()
        pause = self._polling.next_pause(taken, limit, self._dispatcher.load, now, lone=lone)
        moment = now + pause * self.runtime.uniform(0.8, 1.0)
        self._poll_at = moment if whole else min(self._poll_at, moment)

    def _until_next(self) -> float:
        if self._agenda:
            return 0.0
        first = self._agenda.first_at()
        moment = self._poll_at if first is None else min(first, self._poll_at)
        return min(max(moment - self.runtime.monotonic(), 0.0), FOREVER)
