"""Writes the ends of attempts, in natural batches: all that ended while the last write was on
its way go with the next. There is no timer, and nothing waits when nothing else does.

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
Forget = Callable[[UUID, Attempt], None]


class Finisher(Service):
    """The one writer of ends."""

    name = "finisher"

    def __init__(
        self, runtime: Runtime, bus: Bus, store: FinishStore, inspect: InspectStore
    ) -> None:
        super().__init__(runtime, bus)
        self._store = store
        self._inspect = inspect
        self._completions: list[Completion] = []
        self._settlements: list[Settlement] = []
        self._hooked: list[Settlement] = []
        self._attempts: dict[tuple[UUID, int], Attempt] = {}
        self._unsure = False
        """Whether a reply was lost, so that an end we miss may be one we have written."""
        self.node_id: UUID | None = None
        self.forget: Forget = lambda job_id, attempt: None
        self.on_flushed: Callable[[], None] = lambda: None
        self.on_requeued: Callable[[], None] = lambda: None

    # Ends: what execution hands over

    def complete(self, attempt: Attempt, completion: Completion) -> None:
        """Take a success of a job without hooks."""
        self._attempts[completion.id, completion.fence] = attempt
        self._completions.append(completion)
        self._wakeup.set()

    def settle(self, attempt: Attempt, settlement: Settlement) -> None:
        """Take any other end."""
        self._attempts[settlement.id, settlement.fence] = attempt
        if attempt.claim.hooks:
            self._hooked.append(settlement)
        else:
            self._settlements.append(settlement)
        self._wakeup.set()

    def drop(self, attempt: Attempt) -> None:
        """Take note of an end that is written already, or may not be written at all."""
        self.forget(attempt.claim.id, attempt)
        self.on_flushed()

    @property
    def backlog(self) -> int:
        """How many ends wait to be written."""
        return len(self._attempts)

    @property
    def overloaded(self) -> bool:
        """Whether so many wait that nothing new should be claimed."""
        return len(self._attempts) >= BACKLOG

    def abandon(self) -> None:
        """The node has lost its claims: none of these ends may be written."""
        self._completions.clear()
        self._settlements.clear()
        self._hooked.clear()
        self._attempts.clear()

    # Writing

    async def run_once(self) -> float:
        """Write everything that waits, in a few statements."""
        while self._completions or self._settlements or self._hooked:
            node = self.node_id
            if node is None:
                break
            completions = self._take(self._completions)
            await self._write(node, completions, self._store.finish_jobs)
            settlements = self._take(self._settlements)
            await self._write(node, settlements, self._store.settle_jobs)
            hooked = self._take(self._hooked)
            await self._write(node, hooked, self._store.finish_hooked)
            if settlements or hooked:
                # Some may be due again soon; the claimer has to plan for it.
                self.on_requeued()
            self.on_flushed()
        return IDLE

    def _take(self, waiting: list[End]) -> list[End]:
        batch = waiting[:BATCH]
        del waiting[:BATCH]
        return batch

    async def _write(
        self,
        node: UUID,
        batch: list[End],
        write: Callable[[UUID, Sequence[End]], Awaitable[list[UUID]]],
    ) -> None:
        """Write a batch; on trouble put it back, or find the one that cannot be written."""
        if not batch:
            return
        try:
            accepted = await write(node, batch)
        except StoreUnavailable:
            self._unsure = True
            self._put_back(batch)
            raise
        except StoreError as error:
            await self._split(node, batch, write, error)
            return
        if self.node_id != node:
            return
        if len(accepted) != len(batch):
            await self._tell_lost(node, batch, accepted)
        self._unsure = False
        for end in batch:
            attempt = self._attempts.pop((end.id, end.fence), None)
            if attempt is not None:
                self.forget(end.id, attempt)

    def _put_back(self, batch: list[End]) -> None:
        for end in batch:
            if isinstance(end, Completion):
                self._completions.append(end)
            elif (attempt := self._attempts.get((end.id, end.fence))) is not None:
                (self._hooked if attempt.claim.hooks else self._settlements).append(end)

    async def _split(
        self,
        node: UUID,
        batch: list[End],
        write: Callable[[UUID, Sequence[End]], Awaitable[list[UUID]]],
        error: StoreError,
    ) -> None:
        """Halve a batch that the store refuses, until only the guilty one is left."""
        if len(batch) > 1:
            middle = len(batch) // 2
            await self._write(node, batch[:middle], write)
            await self._write(node, batch[middle:], write)
            return
        end = batch[0]
        minimal = end._replace(result=None)
        if isinstance(minimal, Settlement):
            minimal = minimal._replace(error=None, reason=None)
        if minimal != end:
            await self._write(node, [minimal], write)
            return
        attempt = self._attempts.pop((end.id, end.fence), None)
        self.bus.emit(FinishGaveUp(end.id, end.task, str(error)))
        if attempt is not None:
            self.forget(end.id, attempt)

    async def _tell_lost(self, node: UUID, batch: list[End], accepted: Sequence[UUID]) -> None:
        """Say whose claims were lost; after a lost reply some of them were written by us."""
        known = dict.fromkeys(accepted)
        missing = [end for end in batch if end.id not in known]
        ours: dict[tuple[UUID, int | None], None] = {}
        if self._unsure:
            ended = await self._inspect.ended([end.id for end in missing])
            ours = {(job.id, job.fence): None for job in ended if job.node == node}
        for end in missing:
            if (end.id, end.fence) not in ours:
                self.bus.emit(ClaimWasLost(end.id, end.task, node))
