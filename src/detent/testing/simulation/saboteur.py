"""The one who breaks things: processes, their lines, and the store."""

import asyncio
import random
from collections.abc import Awaitable, Callable

from detent.testing.simulation.cluster import Member, World
from detent.testing.simulation.network import BOTH, REPLIES, REQUESTS
from detent.testing.simulation.tail import Mark
from detent.testing.virtual import running_loop


class Saboteur:
    """Makes the troubles that a run is fated to have."""

    def __init__(self, world: World, members: list[Member]) -> None:
        self._world = world
        self._members = members
        self._chance = random.Random(f"{world.fate.seed} saboteur")
        self._lease = world.fate.lease.total_seconds()
        self._store_in_hand = False
        self.done: dict[str, int] = {}
        """How often each fault was made."""

    async def run(self, until: float) -> None:
        """Break things until that virtual second, several at a time."""
        hands = range(self._world.fate.hands)
        await asyncio.gather(*(self._make_trouble(until) for _ in hands))

    async def _make_trouble(self, until: float) -> None:
        deeds: dict[str, Callable[[], Awaitable[None]]] = {
            "cut": self._cut,
            "kill": self._kill,
            "pause": self._pause,
            "restart": self._restart,
            "store": self._restart_store,
            "slow": self._slow_store,
            "tail": self._lose_tail,
        }
        chosen = [name for name in deeds if name in self._world.fate]
        while chosen and running_loop().time() < until:
            await asyncio.sleep(self._chance.uniform(0.5, 10.0))
            await deeds[self._chance.choice(chosen)]()

    def _tell(self, fault: str, text: str) -> None:
        self.done[fault] = self.done.get(fault, 0) + 1
        self._world.history.tell("saboteur", text)

    def _free_member(self) -> Member | None:
        within_reach = self._members[1:] if self._world.fate.spares_one else self._members
        free = [
            each for each in within_reach if each.running and not each.in_hand and not each.starting
        ]
        return self._chance.choice(free) if free else None

    # Processes

    async def _kill(self) -> None:
        member = self._free_member()
        if member is None:
            return
        with member.handled():
            process = member.running[-1].process
            self._tell("kill", f"kills {process.name}")
            process.kill()
            await asyncio.sleep(self._chance.choice((0.1, 5.0, 40.0)) * self._chance.random())
            await member.start()

    async def _pause(self) -> None:
        member = self._free_member()
        if member is None:
            return
        with member.handled():
            process = member.running[-1].process
            seconds = self._lease * self._chance.choice((0.5, 1.5, 2.5)) * self._chance.random()
            self._tell("pause", f"stops {process.name} for {seconds:.3f} s")
            process.pause()
            await asyncio.sleep(seconds)
            if self._chance.random() < 0.2:
                # Somebody took it for dead and started another one.
                self._tell("replaced", f"starts another {member.name}")
                await member.start()
            self._world.history.tell("saboteur", f"lets {process.name} go on")
            process.resume()

    async def _restart(self) -> None:
        member = self._free_member()
        if member is None:
            return
        with member.handled():
            self._tell("restart", f"restarts {member.name}")
            await member.drain()
            await member.start()

    # Lines

    async def _cut(self) -> None:
        member = self._free_member()
        if member is None:
            return
        with member.handled():
            process = member.running[-1].process
            ways = self._chance.choice((BOTH, BOTH, REQUESTS, REPLIES))
            self._tell("cut", f"cuts {process.name} off, {ways}")
            self._world.network.cut(process, ways)
            if ways != REQUESTS:
                self._world.notifier.disconnect(process)
            await asyncio.sleep(self._lease * self._chance.uniform(0.1, 2.0))
            self._world.network.heal(process)
            self._world.notifier.reconnect(process)
            self._world.history.tell("saboteur", f"lets {process.name} back")

    # The store

    async def _restart_store(self) -> None:
        if self._store_in_hand:
            return
        self._store_in_hand = True
        await self._outage("store", self._chance.choice((1.0, 5.0, 25.0)) * self._chance.random())
        self._store_in_hand = False

    async def _lose_tail(self) -> None:
        """Let the store go on from a moment that was some seconds ago, in another epoch."""
        if self._store_in_hand:
            return
        self._store_in_hand = True
        # A standby has got as far as this, and its server ends before it gets any further.
        mark = self._world.checker.tail.mark(self._world.store.tables)
        await asyncio.sleep(self._chance.choice((0.3, 2.0, 8.0)) * self._chance.random())
        await self._outage(
            "tail", self._chance.choice((1.0, 5.0, 25.0)) * self._chance.random(), mark
        )
        self._store_in_hand = False

    async def _outage(self, fault: str, seconds: float, back_to: Mark | None = None) -> None:
        world = self._world
        self._tell(fault, "stops the store")
        began = running_loop().time()
        world.store.stop()
        world.notifier.down = True
        world.notifier.disconnect()
        await asyncio.sleep(seconds)
        if back_to is not None:
            began = back_to.moment
            world.history.tell("saboteur", f"sets the store back to {began:.3f}")
            world.checker.go_back(back_to, world.store.tables)
            world.store.set_back(back_to.tables)
        world.store.start()
        world.book.outage = (began, running_loop().time())
        world.notifier.down = False
        world.notifier.reconnect()
        world.history.tell("saboteur", "starts the store")

    async def _slow_store(self) -> None:
        store = self._world.store
        if self._store_in_hand:
            return
        self._store_in_hand = True
        self._tell("slow", "slows the store down")
        store.slow = True
        await asyncio.sleep(self._chance.uniform(0.5, 12.0))
        store.slow = False
        store.suffers()
        self._world.history.tell("saboteur", "lets the store be fast again")
        self._store_in_hand = False
