"""Writes the ends of attempts, in natural batches.

All that ended while the last write was on its way go with the next. There is no timer, and
nothing waits when nothing else does.

The ladder when the store does not take an end: try again while the node's lease lives; split a
batch until only the guilty one is left; write that one without its result; give up and say so.
"""

from collections.abc import Awaitable, Callable, Iterable, Sequence
from typing import Any, Final, TypeVar
from uuid import UUID

from detent._engine.announce import Announcer
from detent._engine.attempt import Attempt
from detent._engine.service import Service
from detent.errors import StoreError, StoreUnavailable
from detent.events import Bus, ClaimWasLost, FinishGaveUp
from detent.model.gates import is_gated
from detent.model.job import LIMIT_HOOK, OTHER_HOOKS, Completion, Settlement
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
        self._limited: Waiting[Completion] = []
        self._settlements: Waiting[Settlement] = []
        self._hooked: Waiting[Settlement] = []
        self._unsure: dict[tuple[UUID, int], None] = {}
        """The ends whose reply was lost: if they are missed later, we may have written them."""
        self.node_id: UUID | None = None
        self.forget: Callable[[UUID, Attempt], None] = lambda job_id, attempt: None
        self.on_flushed: Callable[[], None] = lambda: None
        self.on_requeued: Callable[[], None] = lambda: None
        self.on_released: Callable[[Iterable[str]], None] = lambda lanes: None
        """Told in which lanes jobs stood that have given back their permits."""
        self.announcer: Announcer | None = None

    # Ends: what execution hands over

    def complete(self, attempt: Attempt, completion: Completion) -> None:
        """Take a success of a job without hooks, or with none but its limit."""
        waiting = self._limited if attempt.claim.hooks else self._completions
        waiting.append((completion, attempt))
        self._wakeup.set()

    def settle(self, attempt: Attempt, settlement: Settlement) -> None:
        """Take any other end."""
        waiting = self._hooked if attempt.claim.hooks & OTHER_HOOKS else self._settlements
        waiting.append((settlement, attempt))
        self._wakeup.set()

    def drop(self, attempt: Attempt) -> None:
        """Take note of an end that is written already, or may not be written at all."""
        if attempt.completed and self.announcer is not None:
            self.announcer.completed(attempt)
        self.forget(attempt.claim.id, attempt)
        if attempt.claim.hooks & LIMIT_HOOK:
            self.on_released((attempt.claim.lane,))
        self.on_flushed()

    @property
    def overloaded(self) -> bool:
        """Whether so many wait that nothing new should be claimed."""
        return sum(map(len, self._waiting)) >= BACKLOG

    @property
    def _waiting(self) -> Sequence[Waiting[Any]]:
        return self._completions, self._limited, self._settlements, self._hooked

    def abandon(self) -> None:
        """The node has lost its claims: none of these ends may be written."""
        for waiting in self._waiting:
            waiting.clear()
        self._unsure.clear()

    # Writing

    async def run_once(self) -> float:
        """Write everything that waits, in a few statements."""
        while any(self._waiting):
            node = self.node_id
            if node is None:
                break
            await self._write_next(node, self._completions, self._store.finish_jobs)
            await self._write_next(node, self._limited, self._store.finish_jobs)
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
        if waiting is not self._completions:
            self._release(batch)
        return len(batch)

    def _release(self, batch: Waiting[Any]) -> None:
        """Tell of the lanes whose jobs have given back their permits, or went back themselves."""
        claims = [attempt.claim for _, attempt in batch]
        lanes = [each.lane for each in claims if each.hooks & LIMIT_HOOK or is_gated(each.lane)]
        if lanes:
            self.on_released(dict.fromkeys(lanes))

    async def _write(self, node: UUID, batch: Waiting[End], write: Write[End]) -> None:
        """Write a batch, or find the one in it that cannot be written."""
        if self.node_id != node:
            return
        accepted: Sequence[UUID]
        try:
            accepted = await write(node, [end for end, _ in batch])
        except StoreUnavailable:
            raise
        except StoreError as error:
            await self._split(node, batch, write, error)
            return
        if len(accepted) != len(batch):
            accepted = [*accepted, *await self._tell_lost(node, batch, accepted)]
        if self.announcer is not None:
            self.announcer.written(batch, accepted)
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

    async def _tell_lost(
        self, node: UUID, batch: Waiting[End], accepted: Sequence[UUID]
    ) -> list[UUID]:
        """Say whose claims were lost; return those that were written by us, with a lost reply."""
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
        return [end.id for end in missing if (end.id, end.fence) in ours]


def _terminal(end: Completion | Settlement) -> bool:
    return isinstance(end, Completion) or end.state.terminal
