"""What the parts of the memory store stand on: the one way in which a statement is carried out."""

from abc import ABC, abstractmethod
from collections.abc import Callable
from datetime import datetime
from typing import Concatenate, ParamSpec, TypeAlias, TypeVar

from detent.stores.memory.tables import Tables

P = ParamSpec("P")
R = TypeVar("R")
Statement: TypeAlias = Callable[Concatenate[Tables, datetime, P], R]


class Carrier(ABC):
    """Each part of the store is one; `MemoryStore` makes it whole."""

    @abstractmethod
    async def _do(self, statement: Statement[P, R], *args: P.args, **kwargs: P.kwargs) -> R:
        """Carry out one statement at one moment."""
