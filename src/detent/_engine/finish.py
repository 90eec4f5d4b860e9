"""Writes the ends of attempts, in natural batches.

All that ended while the last write was on its way go with the next. There is no timer, and
nothing waits when nothing else does.

The ladder when the store does not take an end: try again while the node's lease lives; split a
batch until only the guilty one is left; write that one without its result; give up and say so.
"""

from collections.abc import Awaitable, Callable, Sequence
from typing import Final, TypeVar
from uuid import UUID

from detent._engine.attempt import Attempt
from detent._engine.service import Service
from detent.errors import StoreError, StoreUnavailable
from detent.events import Bus, ClaimWasLost, FinishGaveUp
from detent.model.job import Completion, Settlement
from detent.spi.runtime import Runtime
from detent.spi.store import FinishStore, InspectStore

BATCH: Final = 1_000
BACKLOG: Final = 10_000
IDLE: Final = 3_600.0

End = TypeVar("End", Completion, Settlement)
Waiting = list[tuple[End, Attempt]]
Write = Callable[[UUID, Sequence[End]], Awaitable[list[UUID]]]


class Finisher(Service):
    """The one writer of ends."""

    name = "finisher"

    def __init__(
        self, runtime: Runtime, bus: Bus, store: FinishStore, inspect: InspectStore
    ) -> None:
        super().__init__(runtime, bus)
        self._store = store
        self._inspect = inspect
        self._completions: Waiting[Completion] = []
        self._settlements: Waiting[Settlement] = []
        self._hooked: Waiting[Settlement] = []
        self._unsure: dict[tuple[UUID, int], None] = {}
        """The ends whose reply was lost: if they are missed later, we may have written them."""
        self.node_id: UUID | None = None
        self.forget: Callable[[UUID, Attempt], None] = lambda job_id, attempt: None
        self.on_flushed: Callable[[], None] = lambda: None
        self.on_requeued: Callable[[], None] = lambda: None

    # Ends: what execution hands over

    def complete(self, attempt: Attempt, completion: Completion) -> None:
        """Take a success of a job without hooks."""
        self._completions.append((completion, attempt))
        self._wakeup.set()

    def settle(self, attempt: Attempt, settlement: Settlement) -> None:
        """Take any other end."""
        waiting = self._hooked if attempt.claim.hooks else self._settlements
        waiting.append((settlement, attempt))
        self._wakeup.set()

    def drop(self, attempt: Attempt) -> None:
        """Take note of an end that is written already, or may not be written at all."""
        self.forget(attempt.claim.id, attempt)
        self.on_flushed()

    @property
    def overloaded(self) -> bool:
        """Whether so many wait that nothing new should be claimed."""
        return len(self._completions) + len(self._settlements) + len(self._hooked) >= BACKLOG

    def abandon(self) -> None:
        """The node has lost its claims: none of these ends may be written."""
        self._completions.clear()
        self._settlements.clear()
        self._hooked.clear()
        self._unsure.clear()

    # Writing

    async def run_once(self) -> float:
        """Write everything that waits, in a few statements."""
        while self._completions or self._settlements or self._hooked:
            node = self.node_id
            if node is None:
                break
            await self._write_next(node, self._completions, self._store.finish_jobs)
            settled = await self._write_next(node, self._settlements, self._store.settle_jobs)
            hooked = await self._write_next(node, self._hooked, self._store.finish_hooked)
            if settled or hooked:
                # Some may be due again soon; the claimer has to plan for it.
                self.on_requeued()
            self.on_flushed()
        return IDLE

    async def _write_next(self, node: UUID, waiting: Waiting[End], write: Write[End]) -> int:
        """Write the next batch of those that wait; return how many that were.

        The last write may have taken so long that the node is somebody else by now: what waits
        then is not of the one in whose name this round began.
        """
        if not waiting or self.node_id != node:
            return 0
        batch = waiting[:BATCH]
        del waiting[:BATCH]
        try:
            await self._write(node, batch, write)
        except BaseException:
            # Whatever it was: these ends are not written, or we do not know.
            if self.node_id == node:
                self._unsure.update(((end.id, end.fence), None) for end, _ in batch)
                waiting.extend(batch)
            raise
        return len(batch)

    async def _write(self, node: UUID, batch: Waiting[End], write: Write[End]) -> None:
        """Write a batch, or find the one in it that cannot be written."""
        if self.node_id != node:
            return
        try:
            accepted = await write(node, [end for end, _ in batch])
        except StoreUnavailable:
            raise
        except StoreError as error:
            await self._split(node, batch, write, error)
            return
        if len(accepted) != len(batch):
            await self._tell_lost(node, batch, accepted)
        if self._unsure:
            for end, _ in batch:
                self._unsure.pop((end.id, end.fence), None)
        forget = self.forget
        for end, attempt in batch:
            forget(end.id, attempt)

    async def _split(
        self, node: UUID, batch: Waiting[End], write: Write[End], error: StoreError
    ) -> None:
        """Halve a batch that the store refuses, until only the guilty one is left."""
        if len(batch) > 1:
            middle = len(batch) // 2
            await self._write(node, batch[:middle], write)
            await self._write(node, batch[middle:], write)
            return
        end, attempt = batch[0]
        minimal = end._replace(result=None)
        if isinstance(minimal, Settlement):
            minimal = minimal._replace(error=None, reason=None)
        if minimal != end:
            await self._write(node, [(minimal, attempt)], write)
            return
        self.bus.emit(FinishGaveUp(end.id, end.task, str(error)))
        self.forget(end.id, attempt)

    async def _tell_lost(self, node: UUID, batch: Waiting[End], accepted: Sequence[UUID]) -> None:
        """Say whose claims were lost; after a lost reply some of them were written by us."""
        known = dict.fromkeys(accepted)
        missing = [end for end, _ in batch if end.id not in known]
        doubtful = [end for end in missing if (end.id, end.fence) in self._unsure]
        # A job that went back has moved on, and can no longer show that it was we who sent it.
        ours = {(end.id, end.fence): None for end in doubtful if not _terminal(end)}
        if terminal := [end.id for end in doubtful if _terminal(end)]:
            for job in await self._inspect.ended(terminal):
                if job.node == node and job.fence is not None:
                    ours[job.id, job.fence] = None
        for end in missing:
            if (end.id, end.fence) not in ours:
                self.bus.emit(ClaimWasLost(end.id, end.task, node))


def _terminal(end: Completion | Settlement) -> bool:
    return isinstance(end, Completion) or end.state.terminal
