"""The store of a simulation: a memory store far away, that can be down, slow or unheard.

A call is a request that travels, a statement that is carried out at one moment, and a reply that
travels back. None of this needs the process that made the call: it may be stopped, gone or no
longer interested, and its request is carried out all the same.
"""

import asyncio
import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final, ParamSpec, Protocol, TypeVar

from detent.errors import DetentError, StoreUnavailable
from detent.spi.notifier import Wake
from detent.stores.memory import MemoryStore
from detent.stores.memory.carrier import Statement
from detent.stores.memory.history import raise_numbers
from detent.stores.memory.tables import Tables
from detent.testing.simulation.network import LOST, REPLIES, REQUESTS, Network, later
from detent.testing.simulation.process import ALWAYS, NEVER, Process, who
from detent.testing.virtual import running_loop

P = ParamSpec("P")
R = TypeVar("R")

# The share of what a restart of the store meets that is carried out although nobody is told.
CARRIED_OUT: Final = 0.3
# The share of the requests of a killed process, or of a canceled call, that die with it.
BROKEN_OFF: Final = 0.5

BROKE: Final = "the connection broke"
REFUSED: Final = "the connection was refused"
OVER: Final = "the world has ended"
PROBLEMS: Final = (BROKE, REFUSED, OVER, LOST)
"""What can be wrong with a store that is far away."""


@dataclass(slots=True, eq=False)
class Flight:
    """One call on its way."""

    process: Process
    statement: str
    args: tuple[Any, ...]
    execute: Callable[[datetime], Any]
    reply: asyncio.Future[Any]
    done: bool = False
    """Whether the store has carried it out."""
    ended: bool = False
    """Whether nothing will come of it any more."""
    answer: Any = None
    error: Exception | None = None


class Witness(Protocol):
    """Somebody who sees every call."""

    def sent(self, flight: Flight) -> None:
        """A process makes a call."""

    def carried_out(self, flight: Flight, tables: Tables, now: datetime) -> None:
        """The store did what was asked, or refused; everything is like this now."""

    def broke(self, process: Process) -> None:
        """A process sees that something is wrong with the store, or with its line."""


class Announcer(Protocol):
    """Who tells the nodes of jobs that have become ready."""

    def publish(self, wakes: Sequence[Wake]) -> None:
        """See `Notifier.publish`."""


class DistantStore(MemoryStore):
    """A memory store at the other end of a network."""

    def __init__(
        self, seed: str, now: Callable[[], datetime], network: Network, witness: Witness
    ) -> None:
        super().__init__(now)
        self._random = random.Random(f"{seed} store")
        self._network = network
        self._witness = witness
        self._flights: dict[Flight, None] = {}
        self.down = False
        self.slow = False
        self.sealed = False
        """Whether the world has ended: nothing is carried out any more."""
        self.troubled_until = ALWAYS
        self.hints: Callable[[Flight], Sequence[Wake]] = lambda flight: ()
        self.announcer: Announcer | None = None

    @property
    def tables(self) -> Tables:
        """Everything that it knows, for those who check."""
        return self._tables

    def clock(self) -> datetime:
        """Return the store's now."""
        return self._now()

    # What befalls it

    def stop(self) -> None:
        """Go down; what is on its way is lost, or carried out without anybody being told."""
        self.down = True
        for flight in list(self._flights):
            if not flight.done and self._random.random() < CARRIED_OUT:
                self._execute(flight)
            self._lose(flight, BROKE)

    def start(self) -> None:
        """Come up again, with everything that was committed."""
        self.down = False
        self.suffers()

    def set_back(self, kept: Tables) -> None:
        """Go on from an earlier moment, in another epoch: see `PostgresStore` on timelines."""
        seen = max(self._tables.fence, self._tables.lock_fence)
        self._tables = kept
        raise_numbers(kept, self._now(), seen)

    def suffers(self, seconds: float = 0.0) -> None:
        """Take note that something is wrong with it, for that long."""
        self.troubled_until = max(self.troubled_until, running_loop().time() + seconds)

    def troubled_since(self, moment: float) -> bool:
        """Tell whether something was wrong with it at some time since then."""
        return self.down or self.slow or self.troubled_until >= moment

    @property
    def well_since(self) -> float:
        """Since when nothing has been wrong with it."""
        return NEVER if self.down or self.slow else self.troubled_until

    def break_off(self, process: Process) -> None:
        """The connections of a process are gone: some of its requests never arrive."""
        for flight in [each for each in self._flights if each.process is process]:
            if not flight.done and self._random.random() < BROKEN_OFF:
                self._end(flight)

    # A call

    async def _do(self, statement: Statement[P, R], *args: P.args, **kwargs: P.kwargs) -> R:
        if self.sealed:
            raise StoreUnavailable(OVER)

        def execute(now: datetime) -> R:
            return statement(self._tables, now, *args, **kwargs)

        reply: asyncio.Future[R] = running_loop().create_future()
        flight = Flight(who(), statement.__name__, args, execute, reply)
        self._flights[flight] = None
        self._witness.sent(flight)
        self._network.carry(
            flight.process,
            REQUESTS,
            lambda: self._arrive(flight),
            lambda problem: self._lose(flight, problem),
        )
        try:
            answer = await reply
        except asyncio.CancelledError:
            if not flight.done and self._random.random() < BROKEN_OFF:
                self._end(flight)
            raise
        if self.announcer is not None and (wakes := self.hints(flight)):
            self.announcer.publish(wakes)
        return answer

    def _arrive(self, flight: Flight) -> None:
        if flight.ended:
            return
        if self.down:
            self._lose(flight, REFUSED)
        elif self.slow:
            seconds = self._random.uniform(0.0, 3.0)
            self.suffers(2 * seconds)
            later(seconds, lambda: self._carry_out(flight, self._random.uniform(0.0, seconds)))
        else:
            self._carry_out(flight, 0.0)

    def _carry_out(self, flight: Flight, delay: float) -> None:
        if flight.ended:
            return
        self._execute(flight)
        if delay:
            later(delay, lambda: self._answer(flight))
        else:
            self._answer(flight)

    def _execute(self, flight: Flight) -> None:
        """Carry out the statement; what it answers, or raises, is what will be replied."""
        if self.sealed:
            return
        flight.done = True
        now = self._now()
        try:
            flight.answer = flight.execute(now)
        except (DetentError, AssertionError) as error:
            flight.error = error
        self._witness.carried_out(flight, self._tables, now)

    def _answer(self, flight: Flight) -> None:
        if not flight.ended:
            self._network.carry(
                flight.process,
                REPLIES,
                lambda: self._deliver(flight),
                lambda problem: self._lose(flight, problem),
            )

    def _deliver(self, flight: Flight) -> None:
        if flight.ended:
            return
        self._end(flight)
        if flight.reply.done():
            return
        if flight.error is None:
            flight.reply.set_result(flight.answer)
        else:
            flight.reply.set_exception(flight.error)

    def _lose(self, flight: Flight, problem: str) -> None:
        if not flight.ended:
            self._end(flight)
            if not flight.reply.done():
                flight.reply.set_exception(StoreUnavailable(problem))
                self._witness.broke(flight.process)

    def _end(self, flight: Flight) -> None:
        flight.ended = True
        self._flights.pop(flight, None)
