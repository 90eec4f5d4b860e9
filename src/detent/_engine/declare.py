"""Brings the schedules that code declares into the store, and removes those that no code does.

A node stores what its code declares when it starts, under a lock, so that nodes which start
together do it one after another. From then on it only says now and then that it still declares
them: in a rolling deploy the old and the new code would otherwise undo each other's changes for
as long as both run. What nobody has declared for the grace is removed.
"""

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Final, Protocol
from uuid import UUID

from detent._engine.leadership import SCHEDULER, Elector
from detent._engine.seal import Seal
from detent._engine.service import Service
from detent.config import SchedulesConfig
from detent.errors import (
    ConfigError,
    KeyUnavailable,
    PayloadTooLarge,
    SealError,
    StoreError,
)
from detent.events import Bus, ScheduleDeclared, ScheduleRemoved, ScheduleTrouble
from detent.model.ownership import declared_anew, is_abandoned, merged
from detent.model.schedule import Owner, Schedule, ScheduleInfo
from detent.slots import slots_with
from detent.spi.leadership import Term
from detent.spi.locks import LockStore
from detent.spi.notifier import Notifier, ScheduleHint
from detent.spi.runtime import Runtime
from detent.spi.schedules import ScheduleStore

LOCK: Final = "detent:schedules"
TTL: Final = timedelta(seconds=30)
PAGE: Final = 500
# How often a node looks whether its schedules are still there, and must be declared anew.
INTERVAL: Final = 60.0
# A declaration is renewed when it is this old, as a share of the grace.
RENEWED: Final = 1 / 3
# How long after the first look what seems abandoned is looked at again: all nodes that run have
# spoken by then.
SECOND_LOOK: Final = 2 * INTERVAL
LONGEST_WAIT: Final = 1.0
TRIES: Final = 10


class DeclaringStore(ScheduleStore, LockStore, Protocol):
    """What declaring needs of a store."""


class Declarer(Service):
    """Declares once, and stands by it."""

    name = "declarer"

    def __init__(
        self,
        runtime: Runtime,
        bus: Bus,
        store: DeclaringStore,
        notifier: Notifier | None,
        *,
        schedules: Sequence[Schedule],
        elector: Elector,
        node_name: str,
        config: SchedulesConfig,
    ) -> None:
        super().__init__(runtime, bus)
        self._store = store
        self._notifier = notifier
        self._schedules = schedules
        self._elector = elector
        self._node_name = node_name
        self._grace = config.grace
        self._is_first = True
        self._is_renewed = False
        self._swept_at = runtime.monotonic()
        self._suspects: dict[str, datetime | None] = {}
        """What looked abandoned, and when it was last declared."""
        self._said: dict[str, str] = {}
        self.seal: Seal | None = None
        """What encrypts the schedules of tasks that are encrypted."""

    async def begin(self) -> None:
        """Declare before the node is ready, unless another node is at it just now.

        Trouble with the store, or with keys, is no reason not to start: it is tried again.
        """
        with suppress(StoreError, KeyUnavailable):
            if self._schedules and await self._declare_locked() is None:
                self._is_first = False

    async def run_once(self) -> float:
        """Declare, renew or remove, if it is time."""
        if self._schedules:
            waits = await self._declare_locked()
            if waits is not None:
                return min(waits, LONGEST_WAIT) * self.runtime.uniform(0.8, 1.2)
            self._is_first = False
        if not self._is_renewed:
            await self._renew_seals()
        await self._sweep()
        return INTERVAL

    # Declaring

    async def _declare_locked(self) -> float | None:
        """Declare under the lock; return how long to wait if another node has it."""
        if not self._is_first and not await self._is_due():
            return None
        holder = self.runtime.new_id()
        answer = await self._store.acquire_lock(LOCK, holder, self._node_name, TTL)
        if answer.fence is None:
            return max(answer.free_in, 0.05)
        try:
            await self._declare_all(holder)
        finally:
            await self._store.release_lock(LOCK, holder)
        return None

    async def _is_due(self) -> bool:
        """Whether one of them is gone, was reset, or has not been declared for a while."""
        now = await self._now()
        known = await self._known()
        return any(
            (info := known.get(schedule.name)) is None
            or self._is_stale(info, now)
            or _is_left_behind(info, schedule)
            for schedule in self._schedules
        )

    def _is_stale(self, info: ScheduleInfo, now: datetime) -> bool:
        if info.schedule.owner is not Owner.CODE:
            return False
        if info.declared_at is None:
            return True
        return self._grace is not None and info.declared_at < now - self._grace * RENEWED

    async def _declare_all(self, holder: UUID) -> None:
        known = await self._known()
        told, missing = False, None
        for number, schedule in enumerate(self._schedules):
            if number % PAGE == PAGE - 1:
                await self._store.renew_lock(LOCK, holder, TTL)
            if missing is not None and self.seal and self.seal.hides(schedule.firing):
                continue
            try:
                told = await self._declare(schedule, known.get(schedule.name)) or told
            except PayloadTooLarge as error:
                self._say(schedule.name, str(error))
            except KeyUnavailable as error:
                # Not in the clear; but that is no reason to leave out those that are no secret.
                self._say(schedule.name, str(error))
                missing = error
        if told and self._notifier is not None:
            self._notifier.publish([ScheduleHint()])
        if missing is not None:
            raise missing

    async def _known(self) -> dict[str, ScheduleInfo]:
        names = [schedule.name for schedule in self._schedules]
        found: dict[str, ScheduleInfo] = {}
        for start in range(0, len(names), PAGE):
            page = await self._store.get_schedules(names[start : start + PAGE])
            found |= {info.schedule.name: info for info in page}
        return found

    async def _declare(self, schedule: Schedule, info: ScheduleInfo | None) -> bool:
        """Store one as it should be; return whether it is another than before."""
        for _ in range(TRIES):
            if info is not None and info.schedule.owner is not Owner.CODE:
                self._say(schedule.name, "an operator made one of that name, which is kept")
                return False
            now = await self._now()
            wanted = await self._wanted(schedule, info, now)
            if wanted is None:
                return False
            expected = None if info is None else info.revision
            saved = await self._store.save_schedule(wanted, expected)
            if saved is not None:
                return self._tell(info, saved)
            # It has fired, or somebody has edited it, since it was read.
            found = await self._store.get_schedules([schedule.name])
            info = found[0] if found else None
        self._say(schedule.name, "it changes too fast to be declared; trying again in a minute")
        return False

    async def _wanted(
        self, schedule: Schedule, info: ScheduleInfo | None, now: datetime
    ) -> ScheduleInfo | None:
        """Return what is to be stored, or None if all is well as it is."""
        is_another = self._is_first or info is None or _is_left_behind(info, schedule)
        if info is not None and info.declared_at is not None and not is_another:
            # Only a sign of life: other nodes may run other code by now.
            return replace(info, declared_at=now) if self._is_stale(info, now) else None
        if self.seal is not None:
            schedule = await self.seal.kept(schedule, None if info is None else info.schedule)
        before = info or ScheduleInfo(replace(schedule, trigger=b""), 0, None)
        whole = merged(schedule, before.schedule, before.edited)
        try:
            slots = await slots_with(self._store, whole)
            wanted = declared_anew(schedule, before, now, slots)
        except ConfigError as error:
            self._say(schedule.name, str(error))
            wanted = replace(before, schedule=whole, next_fire=None, problem=str(error))
        if info is not None and wanted == info and not self._is_stale(info, now):
            return None
        return replace(wanted, declared_at=now)

    async def _now(self) -> datetime:
        return (await self._store.due_schedules([], 0)).now

    def _tell(self, info: ScheduleInfo | None, saved: ScheduleInfo) -> bool:
        if info is not None and info.schedule == saved.schedule:
            return False
        self.bus.emit(
            ScheduleDeclared(saved.schedule.name, info is None, saved.next_fire, saved.edited)
        )
        return True

    def _say(self, name: str, problem: str) -> None:
        if self._said.get(name) != problem:
            self._said[name] = problem
            self.bus.emit(ScheduleTrouble(name, problem))

    # Sealing

    async def _renew_seals(self) -> None:
        """Seal what was stored before its task was encrypted, or with a key of the past.

        Once per node: whoever changes keys starts nodes anew.
        """
        seal, after = self.seal, None
        if seal is not None and seal.active:
            while page := await self._store.list_schedules(after=after, limit=PAGE):
                for info in page:
                    await self._renew_seal(info, seal)
                after = page[-1].schedule.name
        self._is_renewed = True

    async def _renew_seal(self, info: ScheduleInfo, seal: Seal) -> None:
        try:
            wanted = await seal.renewed(info.schedule)
        except KeyUnavailable:
            raise
        except SealError as error:
            self._say(info.schedule.name, str(error))
            return
        if wanted != info.schedule:
            # If it has just fired or was edited: whoever starts next comes by again.
            await self._store.save_schedule(replace(info, schedule=wanted), info.revision)

    # Removing

    async def _sweep(self) -> None:
        """Remove what nobody declares any more; one node does it, now and then.

        Not at first sight: when the store was away for longer than the grace, all schedules look
        like that until their nodes have had the time to declare them again.
        """
        term = self._elector.leads(SCHEDULER)
        if self._grace is None or term is None:
            self._suspects = {}
            return
        pause = SECOND_LOOK if self._suspects else self._grace.total_seconds() / 2
        if self.runtime.monotonic() - self._swept_at < pause:
            return
        now, after = await self._now(), None
        seen, self._suspects = self._suspects, {}
        while page := await self._store.list_schedules(after=after, limit=PAGE):
            for info in page:
                if not is_abandoned(info, now, self._grace):
                    continue
                name = info.schedule.name
                if name in seen and seen[name] == info.declared_at:
                    await self._remove(info, now, term)
                else:
                    self._suspects[name] = info.declared_at
            after = page[-1].schedule.name
        self._swept_at = self.runtime.monotonic()

    async def _remove(self, info: ScheduleInfo, now: datetime, term: Term) -> None:
        name = info.schedule.name
        # Only as it was seen: a node may be declaring it at this moment.
        if await self._store.delete_schedule(name, info.revision, term):
            unseen = now - (info.declared_at or now)
            self.bus.emit(ScheduleRemoved(name, unseen.total_seconds()))


def _is_left_behind(info: ScheduleInfo, schedule: Schedule) -> bool:
    """Whether it fires a task of other code, say of an old node that was the last to start.

    It is flagged when no node knows that task any more, and would never fire again.
    """
    if info.problem is None or info.schedule.owner is not Owner.CODE:
        return False
    return info.schedule.firing.task != schedule.firing.task
