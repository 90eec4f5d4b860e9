"""Who leads, and leading a role oneself: for programs that are no nodes, and roles of their own.

A leadership is held for 3 checks of `[cluster] leader_check` and confirmed in the background. One
that could not be confirmed for two thirds of that is *lost*, as is one that somebody took over.
"""

import asyncio
import os
import socket
from contextlib import suppress
from datetime import timedelta
from types import TracebackType
from typing import Any, Final, Protocol, Self

from detent.config.readers import check_label
from detent.errors import StoreError, TermLost
from detent.events import Bus
from detent.holding import Holding
from detent.model.access import Action, Target
from detent.protection import Protection
from detent.seen import SeenNumbers
from detent.spi.leadership import Bid, Candidate, Leader, LeaderStore, Term, TermFence
from detent.spi.notifier import LeaderHint, Notifier
from detent.spi.numbers import NumberStore
from detent.spi.runtime import Runtime

# What nodes lead: to take one of these from them changes how the cluster works.
OF_NODES: Final = ("scheduler", "maintenance")
OF_DAEMONS: Final = "daemon:"


class NumberedLeaders(LeaderStore, NumberStore, Protocol):
    """What leading needs of a store."""


class Leaders:
    """All leaders of a store."""

    def __init__(
        self,
        store: NumberedLeaders,
        notifier: Notifier | None,
        *,
        runtime: Runtime,
        bus: Bus,
        fence: TermFence,
        lease: timedelta,
        protection: Protection | None = None,
    ) -> None:
        self.store = store
        self.runtime = runtime
        self.fence = fence
        self.lease = lease
        self._notifier = notifier
        self._protection = protection or Protection()
        self._held: dict[Term, Leadership] = {}
        self._seen = SeenNumbers("term", store, bus, runtime.monotonic)

    async def list(self) -> list[Leader]:
        """Return who leads at this moment, and since when, by role."""
        return await self.store.leaders()

    async def try_acquire(self, role: str) -> "Leadership | None":
        """Lead a role if nobody does; else return None.

        `scheduler`, `maintenance` and `daemon:<name>` are what nodes lead: who takes one of them
        keeps the nodes from it, and must be allowed to `configure`. A role of your own is, like a
        lock, for whoever comes first.
        """
        if check_label("role", role) in OF_NODES or role.startswith(OF_DAEMONS):
            await self._protection.permit(Action.CONFIGURE, Target(kind="leader", name=role))
        name = f"{socket.gethostname()}:{os.getpid()}"
        leadership: Leadership | None = None

        def doubt() -> None:
            if leadership is not None:
                leadership.doubt()

        candidate = Candidate(self.runtime.new_id(), name, doubt)
        asked_at = self.runtime.monotonic()
        term = await self.ask(candidate, Bid(role))
        if term is None:
            await self.store.resign(candidate.id, [])
            return None
        if not await self._seen.accept(role, term.number, asked_at):
            # Others were shown a higher term: this one would be refused everywhere.
            await self.store.resign(candidate.id, [term])
            return await self.try_acquire(role)
        leadership = Leadership(self, candidate, term)
        self._held[leadership.held] = leadership
        leadership.begin(asked_at)
        return leadership

    async def ask(self, candidate: Candidate, bid: Bid) -> Term | None:
        """Return the term under which a candidate leads now, if it does."""
        leaders = await self.store.elect(candidate, [bid], self.lease)
        mine = [leader.term for leader in leaders if leader.holder == candidate.id]
        return Term(bid.role, mine[0], candidate.id) if mine else None

    def tell(self, role: str) -> None:
        """Let candidates know that a role is free."""
        if self._notifier is not None:
            self._notifier.publish([LeaderHint(role)])

    def forget(self, term: Term) -> None:
        """Remember a leadership no more."""
        self._held.pop(term, None)

    async def close(self) -> None:
        """Release what is still held on this event loop."""
        loop = asyncio.get_running_loop()
        for leadership in [each for each in self._held.values() if each.loop is loop]:
            with suppress(StoreError):
                await leadership.take_away()


class Leadership:
    """A role that this program leads, until it is released or lost."""

    def __init__(self, leaders: Leaders, candidate: Candidate, term: Term) -> None:
        self._leaders = leaders
        self._candidate = candidate
        self.held = term
        self._holding = Holding(leaders.runtime, leaders.lease, self._confirm, self._was_lost)

    def begin(self, asked_at: float) -> None:
        """Confirm it from now on."""
        self._holding.begin(asked_at, f"detent-leader-{self.role}")

    def doubt(self) -> None:
        """Confirm it at once: the store has lost sight of this program."""
        self._holding.doubt()

    async def _confirm(self) -> bool:
        term = await self._leaders.ask(self._candidate, Bid(self.role, self.term))
        if term is not None and term != self.held:
            # Somebody took it from us and gave it up: this is another term than the one we have.
            await self._leaders.store.resign(self._candidate.id, [term])
            self._leaders.tell(self.role)
        return term == self.held

    def _was_lost(self, reason: str) -> None:
        self._leaders.forget(self.held)

    @property
    def role(self) -> str:
        """The role."""
        return self.held.role

    @property
    def term(self) -> int:
        """A number that grows with every election: pass it on to fence writes elsewhere."""
        return self.held.number

    @property
    def loop(self) -> asyncio.AbstractEventLoop:
        """The event loop that confirms it."""
        return self._holding.loop

    @property
    def lost(self) -> asyncio.Event:
        """Set when the leadership is lost: `await leadership.lost.wait()`."""
        return self._holding.lost

    @property
    def is_held(self) -> bool:
        """Whether it may be believed in at this moment."""
        return self._holding.is_held

    def check(self) -> None:
        """Raise `TermLost` unless the leadership may be believed in at this moment."""
        if not self.is_held:
            raise TermLost(self.role, self.term)

    async def fenced(self, connection: Any) -> None:
        """Let the transaction on `connection` commit only under this term, or raise `TermLost`.

        To be called inside a transaction of your own on the store's database, with any connection
        that `within=` takes.
        """
        await self._leaders.fence.fence_within(connection, self.held)

    def fenced_sync(self, connection: Any) -> None:
        """Do the same with a connection of a blocking driver, on this thread."""
        self._leaders.fence.fence_within_sync(connection, self.held)

    async def release(self) -> bool:
        """Give up the role; return whether it was still led."""
        self._leaders.forget(self.held)
        await self._holding.end()
        given = await self._leaders.store.resign(self._candidate.id, [self.held])
        if given:
            self._leaders.tell(self.role)
        return bool(given)

    async def take_away(self) -> None:
        """Give up the role although it is still in use: the app is closed on this event loop."""
        self._holding.lose("the app was closed on its event loop")
        await self.release()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self,
        error_type: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await self.release()
