"""Ends of jobs that wait to be written: how many there are, how large, and which go together."""

from collections import deque
from collections.abc import Awaitable, Callable, Iterator, Sequence
from typing import Final, Generic, TypeVar
from uuid import UUID

from detent._engine.attempt import Attempt
from detent.model.batches import BATCH_BYTES
from detent.model.job import Completion, Settlement

BATCH: Final = 1_000
# So often a batch may fail, with others written in between each time, until a single end in it is
# set aside, and until that end counts as refused.
SUSPECT: Final = 2
GUILTY: Final = 10

End = TypeVar("End", Completion, Settlement)
Ends = list[tuple[End, Attempt]]
Write = Callable[[UUID, Sequence[End]], Awaitable[list[UUID]]]


class EndBatch(Generic[End]):
    """Ends that are written with one call."""

    __slots__ = ("backlog", "ends", "failures", "outdone", "seen")

    def __init__(self, backlog: "Backlog[End]", ends: Ends[End], failures: int = 0) -> None:
        self.backlog: Backlog[End] = backlog
        self.ends: Ends[End] = ends
        self.failures = failures
        """How often the store gave no answer; the ends may have been written all the same."""
        self.outdone = 0
        """How often that was although the store had taken others since the last time."""
        self.seen = 0
        """How many batches the writer had written when this one failed last."""

    def parts(self, count: int) -> list["EndBatch[End]"]:
        """Return it in parts of about the same size, at most `count`."""
        size = -(-len(self.ends) // count)
        return [
            EndBatch(self.backlog, self.ends[start : start + size], self.failures)
            for start in range(0, len(self.ends), size)
        ]

    def failed(self, written: int) -> None:
        """Note that the store gave no answer; `written` is how many batches it has taken."""
        if self.failures and written > self.seen:
            self.outdone += 1
        self.failures += 1
        self.seen = written


class Backlog(Generic[End]):
    """Ends of one kind, in the order in which they came."""

    __slots__ = ("_failed", "bytes", "ends", "write", "write_part")

    def __init__(self, write: Write[End], write_part: Write[End] | None = None) -> None:
        self.write: Write[End] = write
        self.write_part: Write[End] = write_part or write
        """The same for parts of a batch that could not be written as a whole."""
        self.ends: Ends[End] = []
        """Those that were not sent yet."""
        self.bytes = 0
        """The size of results and errors in `ends`."""
        self._failed: deque[EndBatch[End]] = deque()

    def __len__(self) -> int:
        return len(self.ends) + sum(len(batch.ends) for batch in self._failed)

    def __bool__(self) -> bool:
        return bool(self.ends or self._failed)

    def __iter__(self) -> Iterator[tuple[End, Attempt]]:
        yield from self.ends
        for batch in self._failed:
            yield from batch.ends

    @property
    def size(self) -> int:
        """The size of all results and errors that wait here."""
        return self.bytes + sum(size_of(end) for batch in self._failed for end, _ in batch.ends)

    def add(self, end: End, attempt: Attempt) -> None:
        """Take one more end."""
        self.ends.append((end, attempt))
        self.bytes += size_of(end)

    def take(self) -> EndBatch[End] | None:
        """Take the next batch of those that were not sent yet."""
        ends = self.ends
        if not ends:
            return None
        batch = ends[:BATCH]
        if self.bytes > BATCH_BYTES:
            batch = _first(batch)
        del ends[: len(batch)]
        self.bytes = self.bytes - sum(size_of(end) for end, _ in batch) if ends else 0
        return EndBatch(self, batch)

    def take_failed(self) -> EndBatch[End] | None:
        """Take the next batch that was sent before, without an answer."""
        return self._failed.popleft() if self._failed else None

    def put_back(self, batch: EndBatch[End]) -> None:
        """Keep a batch that was not sent now."""
        if batch.failures:
            self._failed.append(batch)
            return
        for end, attempt in batch.ends:
            self.add(end, attempt)

    def keep(self, batch: EndBatch[End]) -> None:
        """Keep a batch that got no answer; halve it the second time, whatever the reason is."""
        if batch.failures > 1 and len(batch.ends) > 1:
            for half in batch.parts(2):
                half.failures, half.seen = 1, batch.seen
                half.outdone = min(batch.outdone, SUSPECT)
                self._failed.append(half)
        else:
            self._failed.append(batch)

    def clear(self) -> None:
        """Drop everything."""
        self.ends.clear()
        self._failed.clear()
        self.bytes = 0


def size_of(end: Completion | Settlement) -> int:
    """Return the size of the result and the error of an end."""
    size = 0 if end.result is None else len(end.result)
    if isinstance(end, Settlement) and end.error is not None:
        size += len(end.error)
    return size


def _first(ends: Ends[End]) -> Ends[End]:
    """Return the first of these: as many as one batch may hold by their size, at least one."""
    total = 0
    for count, (end, _) in enumerate(ends):
        total += size_of(end)
        if total > BATCH_BYTES:
            return ends[: max(count, 1)]
    return ends
