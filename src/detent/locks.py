"""Locks that hold across processes and machines, each with a fence that only grows.

A lock is held for a time, its `ttl`, and renewed in the background after each third of it. A
holder that could not renew it for two thirds must assume that somebody else will soon hold it: the
lock is *lost*. Nobody is interrupted by that. `lock.lost` is set, `lock.check()` raises from then
on, and so does the end of the block. What must never happen twice should carry `lock.fence`, and
be refused when a greater one was seen.
"""

import asyncio
import os
import socket
import threading
from collections.abc import Callable, Coroutine
from contextlib import suppress
from datetime import timedelta
from types import TracebackType
from typing import Any, Final, Protocol, Self
from uuid import UUID

from detent.config.readers import check_label
from detent.doorbell import Doorbell, Doorbells
from detent.errors import ConfigError, LockLost, LockTaken, StoreError
from detent.events import Bus, LockWasLost
from detent.holding import TRUST, Holding
from detent.model.access import Action, Target
from detent.model.durations import Duration, parse_duration
from detent.protection import Protection
from detent.seen import SeenNumbers
from detent.spi.locks import LockInfo, LockStore
from detent.spi.notifier import LockHint, Notifier
from detent.spi.numbers import NumberStore
from detent.spi.runtime import Runtime

SHORTEST: Final = timedelta(milliseconds=100)
LONGEST: Final = timedelta(days=1)
DEFAULT_TTL: Final = timedelta(seconds=30)
# How often one who waits asks, when nobody tells him of a release, and when somebody should.
POLL: Final = 0.5
SLOW_POLL: Final = 2.0
GIVING_BACK: Final = 1.0

Call = Callable[[Coroutine[Any, Any, Any]], Any]


class FencedLocks(LockStore, NumberStore, Protocol):
    """What locks need of a store."""


class Locks:
    """All locks of a store."""

    def __init__(
        self,
        store: FencedLocks,
        notifier: Notifier | None,
        *,
        runtime: Runtime,
        bus: Bus,
        call: Call,
        protection: Protection | None = None,
    ) -> None:
        self.store = store
        self.runtime = runtime
        self.bus = bus
        self.seen = SeenNumbers("fence", store, bus, runtime.monotonic)
        self.call = call
        self._notifier = notifier
        self._protection = protection or Protection()
        self.doorbells = None if notifier is None else Doorbells(notifier)
        self._held: dict[UUID, HeldLock] = {}

    async def list(self) -> list[LockInfo]:
        """Return the locks that are held, by name."""
        return await self.store.locks()

    async def force_release(self, name: str) -> LockInfo | None:
        """Take a lock from whoever holds it; return what it was, or None if it was free.

        The holder learns of it with his next renewal. Until then he believes to hold it: make sure
        that he is gone, or that what he does is fenced.
        """
        target = Target(kind="lock", name=check_label("lock", name))
        await self._protection.permit(Action.CONFIGURE, target)
        taken = await self.store.force_release(name)
        if taken is not None:
            self.tell(name)
        return taken

    def lock(
        self,
        name: str,
        *,
        ttl: Duration = DEFAULT_TTL,
        wait: Duration | None = None,
    ) -> "Lock":
        """Return a lock, not yet held; see `App.lock`."""
        return Lock(self, check_label("lock", name), _as_ttl(ttl), _as_wait(wait))

    def tell(self, name: str) -> None:
        """Let those know who wait for a lock that it was released."""
        if self._notifier is not None:
            self._notifier.publish([LockHint(name)])

    def keep(self, held: "HeldLock") -> None:
        """Remember a lock, to be released when the app is closed."""
        self._held[held.holder] = held

    def forget(self, held: "HeldLock") -> None:
        """Remember it no more."""
        self._held.pop(held.holder, None)

    async def close(self) -> None:
        """Release what is still held on this event loop."""
        loop = asyncio.get_running_loop()
        for held in [each for each in self._held.values() if each.loop is loop]:
            with suppress(StoreError):
                await held.take_away()
        if self.doorbells is not None:
            await self.doorbells.close()


class Lock:
    """A lock as one asks for it: `async with` it, or `with` it in blocking code."""

    def __init__(self, locks: Locks, name: str, ttl: timedelta, wait: float | None) -> None:
        self._locks = locks
        self._runtime = locks.runtime
        self.name = name
        self.ttl = ttl
        self._wait = wait
        self._entered: dict[object, HeldLock] = {}

    async def try_acquire(self) -> "HeldLock | None":
        """Return the lock if it is free, else None; does not wait."""
        return (await self._try())[0]

    async def acquire(self) -> "HeldLock":
        """Return the lock, as soon as it is free; raise `LockTaken` when that takes too long."""
        began = self._runtime.monotonic()
        held, _ = await self._try()
        if held is not None:
            return held
        doorbells = self._locks.doorbells
        if doorbells is None:
            return await self._wait_for(began, asyncio.Event(), None)
        doorbell = doorbells.here()
        with doorbell.waiting(self.name) as bell:
            return await self._wait_for(began, bell, doorbell)

    async def _wait_for(
        self, began: float, bell: asyncio.Event, doorbell: Doorbell | None
    ) -> "HeldLock":
        while True:
            bell.clear()
            held, free_in = await self._try()
            if held is not None:
                return held
            waited = self._runtime.monotonic() - began
            left = float("inf") if self._wait is None else self._wait - waited
            if left <= 0:
                raise LockTaken(self.name, waited)
            poll = SLOW_POLL if doorbell is not None and doorbell.hears else POLL
            # Apart from others who wait, so that not all ask at once.
            pause = min(free_in + 0.01, poll) * self._runtime.uniform(1.0, 1.2)
            with suppress(TimeoutError):
                async with asyncio.timeout(min(pause, left)):
                    await bell.wait()

    async def _try(self) -> "tuple[HeldLock | None, float]":
        # Another one for each try: what gives back an earlier one may still be on its way, and
        # must not hit a later one.
        holder = self._runtime.new_id()
        owner = f"{socket.gethostname()}:{os.getpid()}"
        asked_at = self._runtime.monotonic()
        try:
            answer = await self._locks.store.acquire_lock(self.name, holder, owner, self.ttl)
        except (StoreError, asyncio.CancelledError):
            # We may have got it without knowing; nobody should have to wait for the end of it.
            await self._give_back(holder)
            raise
        if answer.fence is None:
            return None, answer.free_in
        if self._runtime.monotonic() - asked_at >= self.ttl.total_seconds() * TRUST:
            # The answer was so long on its way, or our loop so busy, that others may have it now.
            await self._give_back(holder)
            return None, 0.0
        try:
            accepted = await self._locks.seen.accept(self.name, answer.fence, asked_at)
        except (StoreError, asyncio.CancelledError):
            await self._give_back(holder)
            raise
        if not accepted:
            # Others were shown a higher fence: this one would be refused everywhere.
            await self._give_back(holder)
            return await self._try()
        held = HeldLock(self._locks, self, holder, answer.fence)
        held.begin(asked_at)
        return held, 0.0

    async def _give_back(self, holder: UUID) -> None:
        with suppress(StoreError, TimeoutError):
            async with asyncio.timeout(GIVING_BACK):
                if await self._locks.store.release_lock(self.name, holder):
                    self._locks.tell(self.name)

    async def __aenter__(self) -> "HeldLock":
        return await self._enter(asyncio.current_task())

    async def __aexit__(
        self,
        error_type: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await self._left_by(asyncio.current_task()).leave(error)

    async def _enter(self, who: object) -> "HeldLock":
        if who in self._entered:
            raise ConfigError(
                f"the lock {self.name!r} is held by this very code: it would wait for itself"
            )
        held = self._entered[who] = await self.acquire()
        held.in_block = True
        return held

    def _left_by(self, who: object) -> "HeldLock":
        """Return what this task or thread has entered; it may have been entered by another."""
        return self._entered.pop(who if who in self._entered else next(reversed(self._entered)))

    # From blocking code

    def __enter__(self) -> "HeldLock":
        held: HeldLock = self._locks.call(self._enter(threading.get_ident()))
        return held

    def __exit__(
        self,
        error_type: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._locks.call(self._left_by(threading.get_ident()).leave(error))

    def try_acquire_sync(self) -> "HeldLock | None":
        """Return the lock if it is free, else None; from blocking code."""
        held: HeldLock | None = self._locks.call(self.try_acquire())
        return held


class HeldLock:
    """A lock that is held, until it is released or lost."""

    def __init__(self, locks: Locks, lock: Lock, holder: UUID, fence: int) -> None:
        self._locks = locks
        self._ttl = lock.ttl
        self.name = lock.name
        self.holder = holder
        self.fence = fence
        """Greater than that of everybody who held this lock before."""
        self.in_block = False
        """Whether a block believes in it, and is to be told when something else releases it."""
        self._holding = Holding(locks.runtime, lock.ttl, self._renew, self._was_lost)

    def begin(self, asked_at: float) -> None:
        """Renew it from now on."""
        self._locks.keep(self)
        self._holding.begin(asked_at, f"detent-lock-{self.name}")

    async def _renew(self) -> bool:
        return await self._locks.store.renew_lock(self.name, self.holder, self._ttl)

    def _was_lost(self, reason: str) -> None:
        self._locks.forget(self)
        self._locks.bus.emit(LockWasLost(self.name, self.fence, reason))

    @property
    def loop(self) -> asyncio.AbstractEventLoop:
        """The event loop that renews it."""
        return self._holding.loop

    @property
    def lost(self) -> asyncio.Event:
        """Set when the lock is lost: `await lock.lost.wait()`."""
        return self._holding.lost

    @property
    def is_held(self) -> bool:
        """Whether it may be believed in at this moment."""
        return self._holding.is_held

    def check(self) -> None:
        """Raise `LockLost` unless the lock may be believed in at this moment."""
        if not self.is_held:
            raise LockLost(self.name, self.fence, self._holding.reason)

    async def release(self) -> bool:
        """Give the lock back; return whether it was still held."""
        was_lost = self.lost.is_set()
        if self.in_block:
            self._holding.lose("it was released before its block ended")
        self._locks.forget(self)
        await self._holding.end()
        released = await self._locks.store.release_lock(self.name, self.holder)
        if released:
            self._locks.tell(self.name)
        return released and not was_lost

    async def take_away(self) -> None:
        """Release it although it is still in use: the app is closed on this event loop."""
        self._holding.lose("the app was closed on its event loop")
        await self.release()

    def release_sync(self) -> bool:
        """Give it back from blocking code."""
        released: bool = self._locks.call(self.release())
        return released

    async def leave(self, error: BaseException | None) -> None:
        """Release it at the end of a block; raise `LockLost` if the block only believed to hold it.

        What the block itself raised is more important.
        """
        self.in_block = False
        try:
            was_held = await self.release()
        except StoreError:
            was_held = not self.lost.is_set()  # its time ends by itself
        if error is None and not was_held:
            raise LockLost(self.name, self.fence, self._holding.reason)

    async def __aenter__(self) -> Self:
        self.in_block = True
        return self

    async def __aexit__(
        self,
        error_type: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await self.leave(error)


def _as_ttl(value: Duration) -> timedelta:
    ttl = _seconds("ttl", value)
    if not SHORTEST <= ttl <= LONGEST:
        raise ConfigError(f"lock(ttl={value!r}): must be 100 ms to 24 hours")
    return ttl


def _as_wait(value: Duration | None) -> float | None:
    if value is None:
        return None
    wait = _seconds("wait", value).total_seconds()
    if wait < 0:
        raise ConfigError(f"lock(wait={value!r}): must not be negative")
    return wait


def _seconds(option: str, value: Duration) -> timedelta:
    try:
        return parse_duration(value)
    except ValueError as error:
        raise ConfigError(f"lock({option}={value!r}): {error}") from None
