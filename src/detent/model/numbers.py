"""Numbers that others compare: fences, lock fences and terms, which never go back.

The store counts in the low bits. Above them stands an *epoch*, which grows when a part of the
store's history was lost, so that no number is given twice: the counter may have gone back.
"""

from typing import Final

EPOCH: Final = 1 << 40
"""By how much a number grows with the epoch."""


def raised(number: int, above: int) -> int:
    """Return a number of an epoch after that of `above`, with the same count; it may be so now."""
    return number + max(above // EPOCH + 1 - number // EPOCH, 0) * EPOCH


def went_back(seen: int, given: int) -> bool:
    """Whether a number, given after one that was seen, shows that the store has forgotten that."""
    return given <= seen or given % EPOCH <= seen % EPOCH


def next_term(last: int, epoch: int) -> int:
    """Return the term after another; `epoch` is the least number of the present epoch."""
    return max(last, epoch + last % EPOCH) + 1
