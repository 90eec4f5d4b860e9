"""Which of many values go together: at most so many, and at most so many bytes."""

from collections.abc import Callable, Iterator, Sequence
from typing import Final, TypeVar

T = TypeVar("T")

BATCH_BYTES: Final = 4 << 20
"""What one call brings to a store: a driver encodes it in a few milliseconds."""


def batches(
    values: Sequence[T], size: Callable[[T], int], most: int, limit: int = BATCH_BYTES
) -> Iterator[Sequence[T]]:
    """Yield all values in their order, at most `most` and `limit` bytes at once.

    A value that is larger than the limit goes alone.
    """
    start = total = 0
    for place, value in enumerate(values):
        length = size(value)
        if place > start and (place - start >= most or total + length > limit):
            yield values[start:place]
            start, total = place, 0
        total += length
    if start < len(values):
        yield values[start:]
