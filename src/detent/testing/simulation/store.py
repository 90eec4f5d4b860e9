"""The memory store behind a line that fails, under the eyes of a witness."""

from collections.abc import Callable
from contextvars import ContextVar
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final, ParamSpec, Protocol, TypeVar

from detent.stores.memory import MemoryStore
from detent.stores.memory.nodes import DEAD, claims_of, release_claims
from detent.stores.memory.store import Statement
from detent.stores.memory.tables import Tables

P = ParamSpec("P")
R = TypeVar("R")

who: Final[ContextVar[str]] = ContextVar("detent_simulated_process", default="test")
"""Which of the simulated processes the running code belongs to."""


@dataclass(slots=True)
class Call:
    """One call to the store on its way there, or on its way back."""

    statement: str
    args: tuple[Any, ...]
    who: str
    done: bool = False
    """Whether the store has carried it out: what is lost now is the reply."""


class Line(Protocol):
    """What lies between a process and its store."""

    async def carry(self, call: Call) -> None:
        """Take the time that it takes; raise `StoreUnavailable` to lose the request or reply."""


class Witness(Protocol):
    """Somebody who sees every call."""

    def sent(self, call: Call) -> None:
        """A process makes a call."""

    def carried_out(self, call: Call, answer: Any, before: Tables, after: Tables) -> None:
        """The store did what was asked: `before` it and `after` it, everything was like this."""


class WatchedStore(MemoryStore):
    """A memory store that is reached over a line."""

    def __init__(
        self, now: Callable[[], datetime], line: Line, witness: Witness | None = None
    ) -> None:
        super().__init__(now, latency=self._pass)
        self._line = line
        self._witness = witness

    @property
    def tables(self) -> Tables:
        """Everything that it knows, for those who check."""
        return self._tables

    async def rescue(self) -> int:
        """Declare nodes dead whose lease has run out, and give their claims back, all at once."""
        return await self._do(rescue)

    async def _do(self, statement: Statement[P, R], *args: P.args, **kwargs: P.kwargs) -> R:
        call = Call(statement.__name__, args, who.get())
        if self._witness is not None:
            self._witness.sent(call)
        token = _calling.set(call)
        try:
            return await super()._do(self._watched(statement, call), *args, **kwargs)
        finally:
            _calling.reset(token)

    async def _pass(self) -> None:
        await self._line.carry(_calling.get())

    def _watched(self, statement: Statement[P, R], call: Call) -> Statement[P, R]:
        def carry_out(tables: Tables, now: datetime, /, *args: P.args, **kwargs: P.kwargs) -> R:
            before = tables.snapshot() if self._witness is not None else tables
            answer = statement(tables, now, *args, **kwargs)
            call.done = True
            if self._witness is not None:
                self._witness.carried_out(call, answer, before, self._tables)
            return answer

        return carry_out


def rescue(tables: Tables, now: datetime) -> int:
    """Do what the cluster will do for itself; return how many claims went back."""
    late = [node for node in tables.nodes.values() if node.lease_until <= now]
    for node in late:
        tables.nodes[node.incarnation] = node._replace(state=DEAD)
    return sum(
        release_claims(tables, now, node.incarnation, claims_of(tables, now, node.incarnation))
        for node in late
    )


_calling: Final[ContextVar[Call]] = ContextVar("detent_simulated_call")
