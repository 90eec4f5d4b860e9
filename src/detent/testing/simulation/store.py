"""The memory store behind a line on which a test decides what is lost or held up."""

from collections.abc import Callable
from contextvars import ContextVar
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final, ParamSpec, Protocol, TypeVar

from detent.stores.memory import MemoryStore
from detent.stores.memory.carrier import Statement
from detent.stores.memory.tables import Tables

P = ParamSpec("P")
R = TypeVar("R")


@dataclass(slots=True)
class Call:
    """One call to the store on its way there, or on its way back."""

    statement: str
    args: tuple[Any, ...]
    done: bool = False
    """Whether the store has carried it out: what is lost now is the reply."""


class Line(Protocol):
    """What lies between a process and its store."""

    async def carry(self, call: Call) -> None:
        """Take the time that it takes; raise `StoreUnavailable` to lose the request or reply."""


class WatchedStore(MemoryStore):
    """A memory store that is reached over a line."""

    def __init__(self, now: Callable[[], datetime], line: Line) -> None:
        super().__init__(now, latency=self._pass)
        self._line = line

    @property
    def tables(self) -> Tables:
        """Everything that it knows, for those who check."""
        return self._tables

    async def _do(self, statement: Statement[P, R], *args: P.args, **kwargs: P.kwargs) -> R:
        call = Call(statement.__name__, args)

        def carry_out(tables: Tables, now: datetime, /, *args: P.args, **kwargs: P.kwargs) -> R:
            answer = statement(tables, now, *args, **kwargs)
            call.done = True
            return answer

        token = _calling.set(call)
        try:
            return await super()._do(carry_out, *args, **kwargs)
        finally:
            _calling.reset(token)

    async def _pass(self) -> None:
        await self._line.carry(_calling.get())


_calling: Final[ContextVar[Call]] = ContextVar("detent_simulated_call")
