"""Asks the store for work: as much as there is room for, and no more."""

import asyncio
from collections.abc import Callable, Collection, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import Final
from uuid import UUID

from detent._engine.dispatch import Dispatcher
from detent._engine.floors import Floors, positions_in
from detent._engine.polling import Polling
from detent._engine.service import Service
from detent.config import NodeConfig, PollingConfig
from detent.errors import StoreUnavailable
from detent.events import Bus
from detent.model.job import lane_of
from detent.spi.notifier import Wake
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
BEGINNING: Final = datetime.min.replace(tzinfo=UTC)


def lanes_for(queue: str, capabilities: Collection[str]) -> list[str]:
    """Return the lanes of a queue that a node with these capabilities can serve."""
    sets: list[tuple[str, ...]] = [()]
    for capability in sorted(capabilities):
        sets += [(*known, capability) for known in sets]
    return [lane_of(queue, needs) for needs in sets]


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
        config: NodeConfig,
        polling: PollingConfig,
        boost_interval: timedelta,
    ) -> None:
        super().__init__(runtime, bus)
        self._store = store
        self._dispatcher = dispatcher
        self._config = config
        self._boost_interval = boost_interval
        self._polling = Polling(polling, runtime.monotonic())
        self._lanes: dict[str, list[str]] = {
            queue: lanes_for(queue, config.capabilities) for queue in config.slots()
        }
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
        self.claiming = asyncio.Lock()
        self.node_id: UUID | None = None
        self.may_claim: Callable[[], bool] = lambda: True
        self.on_lost_reply: Callable[[], None] = lambda: None
        self.store_time: Callable[[], datetime] = lambda: BEGINNING
        """A moment of the store's clock that has passed, and not long ago."""

    @property
    def lanes(self) -> list[str]:
        """All lanes that this node serves."""
        return [lane for lanes in self._lanes.values() for lane in lanes]

    @property
    def lanes_by_queue(self) -> Mapping[str, Sequence[str]]:
        """The lanes of each queue that this node serves."""
        return self._lanes

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
        known = dict.fromkeys(self.lanes)
        if not wakes or any(getattr(wake, "lane", None) in known for wake in wakes):
            self._polling.woken()
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
        if self.claiming.locked():
            # What is being claimed beside will take room.
            async with self.claiming:
                pass
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
        if quiet and (due := await self._store.next_due(scans)) != 0:
            # One statement for a look that finds nothing, and nothing is written.
            return self._next_look(0, limit, moment, due)
        taken = await self.claim(scans, limit)
        self._waits_for_room |= not all(self._dispatcher.rooms().values())
        self.stirred |= taken > 0
        self._hungry = taken == limit
        if self._hungry:
            return 0.0
        return await self._pause_after(taken, limit, moment)

    def _rooms(self) -> dict[str, int]:
        rooms = self._dispatcher.rooms()
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
        async with self.claiming:
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
        queues = [queue for queue in self._lanes if rooms[queue] > 0]
        self._turn += 1
        turn = self._turn % len(queues)
        scans = []
        for queue in queues[turn:] + queues[:turn]:
            lanes = self._lanes[queue]
            share = -(-rooms[queue] // len(lanes))
            scans += [LaneScan(lane, queue, share, self.floors.of(lane)) for lane in lanes]
        self._asked = scans
        return scans

    async def _pause_after(self, taken: int, limit: int, moment: datetime) -> float:
        """Return how long to wait after a claim that came back short, begun after `moment`."""
        # What was claimed starts first: to ask for the next due time takes a good part of the
        # time that a lone job waits.
        await self.runtime.sleep(0)
        return self._next_look(taken, limit, moment, await self._store.next_due(self._asked))

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
