"""Numbers that never go back, with the meaning that every other store must have."""

from datetime import datetime

from detent.model.numbers import raised
from detent.stores.memory.tables import Tables


def raise_numbers(tables: Tables, now: datetime, above: int) -> None:
    """Let every number that is given from now on be greater than `above`."""
    tables.fence = raised(tables.fence, above)
    tables.lock_fence = raised(tables.lock_fence, above)
