"""Columns of a batch, made short: most batches are uniform, and encoding arrays is not free.

`unnest` pads shorter arrays with NULL, so a column can be left out or given as its first value,
where the statement says what NULL stands for.
"""

from collections.abc import Sequence
from typing import Any


def unless_empty(values: Sequence[Any]) -> Sequence[Any] | None:
    """Return a column, or None when it holds nothing but None."""
    return None if values.count(None) == len(values) else values


def shortened(values: Sequence[Any]) -> Sequence[Any]:
    """Return a column without NULLs; only its first value when all are the same."""
    return values[:1] if values.count(values[0]) == len(values) else values
