"""Takes the ends of attempts and keeps each until it is written, or its claim is lost.

Plain ends and ends of jobs with hooks have a writer each (`write_ends.py`): a row that another
transaction has locked, because a caller replaces the holder of a key, holds up no plain end.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from typing import Any, Final, Protocol
from uuid import UUID

from detent._engine.announce import Announcer
from detent._engine.attempt import Attempt
from detent._engine.backlog import Backlog, EndBatch
from detent._engine.execute import as_failed_attempt
from detent._engine.heed import heed_requests
from detent._engine.service import Service
from detent._engine.write_ends import EndWriter, is_terminal
from detent.errors import StoreError
from detent.events import Bus, ClaimWasLost, FinishGaveUp
from detent.model.gates import is_gated
from detent.model.job import LIMIT_HOOK, OTHER_HOOKS, Completion, Settlement
from detent.spi.runtime import Runtime
from detent.spi.store import ContextStore, FinishStore, InspectStore

# With so many ends waiting, or so many bytes of results, nothing new is claimed.
BACKLOG: Final = 10_000
BACKLOG_BYTES: Final = 64 << 20
# For how many seconds a batch of hooked ends may wait for a lock, and a part of such a batch.
PATIENCE: Final = 0.5
HURRY: Final = 0.05


class Ledger(FinishStore, ContextStore, Protocol):
    """What the finisher needs of a store."""


class Finisher:
    """Every end of an attempt on this node passes here."""

    def __init__(self, runtime: Runtime, bus: Bus, store: Ledger, inspect: InspectStore) -> None:
        self._bus = bus
        self._store = store
        self._completions = Backlog(store.finish_jobs)
        self._limited = Backlog(store.finish_jobs)
        self._settlements = Backlog(store.settle_jobs)
        self._hooked = Backlog(
            partial(store.finish_hooked, patience=PATIENCE),
            partial(store.finish_hooked, patience=HURRY),
        )
        plain = (self._completions, self._limited, self._settlements)
        self._backlogs: Sequence[Backlog[Any]] = (*plain, self._hooked)
        self._plain_writer = EndWriter(runtime, bus, inspect, self, name="finisher", backlogs=plain)
        self._hooked_writer = EndWriter(
            runtime, bus, inspect, self, name="hooked finisher", backlogs=(self._hooked,)
        )
        self._writers = (self._plain_writer, self._hooked_writer)
        self._retiring: UUID | None = None
        self.node_id: UUID | None = None
        self.forget: Callable[[UUID, Attempt], None] = lambda job_id, attempt: None
        self.on_flushed: Callable[[], None] = lambda: None
        self._requeued: dict[str, None] = {}
        self.on_requeued: Callable[[Iterable[str]], None] = lambda queues: None
        """Told in which queues jobs may be due again soon."""
        self.on_released: Callable[[Iterable[str]], None] = lambda lanes: None
        """Told in which lanes jobs stood that have given back their permits."""
        self.announcer: Announcer | None = None

    @property
    def services(self) -> Sequence[Service]:
        """Those that write."""
        return self._writers

    # Ends: what execution hands over

    def complete(self, attempt: Attempt, completion: Completion) -> None:
        """Take a success of a job without hooks, or with none but its limit."""
        if attempt.node_id is not self.node_id and self._is_too_late(attempt):
            return
        backlog = self._limited if attempt.claim.hooks else self._completions
        backlog.ends.append((completion, attempt))
        if completion.result is not None:
            backlog.bytes += len(completion.result)
        self._plain_writer.wake()

    def settle(self, attempt: Attempt, settlement: Settlement) -> None:
        """Take any other end."""
        if attempt.node_id is not self.node_id and self._is_too_late(attempt):
            return
        if attempt.claim.hooks & OTHER_HOOKS:
            self._hooked.add(settlement, attempt)
            self._hooked_writer.wake()
        else:
            self._settlements.add(settlement, attempt)
            self._plain_writer.wake()

    def drop(self, attempt: Attempt) -> None:
        """Take note of an end that is written already, or may not be written at all."""
        if attempt.completed and self.announcer is not None:
            self.announcer.completed(attempt)
        self.forget(attempt.claim.id, attempt)
        if attempt.claim.hooks & LIMIT_HOOK:
            self.on_released((attempt.claim.lane,))
        self.on_flushed()

    def _is_too_late(self, attempt: Attempt) -> bool:
        """Tell of an end that comes when the node works under a new incarnation already.

        While a fenced node has none, its ends are kept: `write_known` is still to come.
        """
        if self.node_id is None or attempt.node_id in (self.node_id, self._retiring):
            return False
        self._bus.emit(ClaimWasLost(attempt.claim.id, attempt.claim.task, attempt.node_id))
        self.drop(attempt)
        return True

    @property
    def overloaded(self) -> bool:
        """Whether so much waits that nothing new should be claimed."""
        count = sum(map(len, self._backlogs)) + sum(len(each.aside) for each in self._writers)
        return count >= BACKLOG or sum(each.size for each in self._backlogs) >= BACKLOG_BYTES

    # A node that loses its lease, or ends

    def break_off(self) -> None:
        """Write nothing more for now, and keep what is known."""
        for writer in self._writers:
            writer.break_off()

    async def write_known(self, node: UUID) -> None:
        """Write what is known under an incarnation that may still hold the claims.

        The fence decides: claims that others took meanwhile are told as lost. Raises if the
        store gives no answer; then everything is kept.
        """
        self._retiring = node
        try:
            for writer in self._writers:
                await writer.write_all(node)
        finally:
            self._retiring = None

    @property
    def known(self) -> Sequence[UUID]:
        """The jobs whose run has ended, while the store has not taken that end yet."""
        return [end.id for end, _ in self._waiting() if _counts(end)]

    def abandon(self, reason: str) -> None:
        """Drop everything that waits, and tell of each end that is lost by that."""
        for end, _ in list(self._waiting()):
            if _counts(end):
                self._bus.emit(FinishGaveUp(end.id, end.task, reason))
        for backlog in self._backlogs:
            backlog.clear()
        for writer in self._writers:
            writer.aside.clear()

    def _waiting(self) -> Iterator[tuple[Completion | Settlement, Attempt]]:
        for backlog in self._backlogs:
            yield from backlog
        for writer in self._writers:
            for batch in writer.aside:
                yield from batch.ends

    # What the writers tell

    def may_write(self, node: UUID) -> bool:
        """Whether ends are written in the name of `node` at the moment."""
        return node in (self.node_id, self._retiring)

    async def heed(self, node: UUID, batch: EndBatch[Any]) -> None:
        """Let jobs end that were asked to, before a batch is written with which they go back."""
        if batch.backlog is self._settlements or batch.backlog is self._hooked:
            await heed_requests(self._store, node, batch)

    def written(self, batch: EndBatch[Any], accepted: Sequence[UUID]) -> None:
        """Let go of what is written, or was refused because the claim is lost."""
        if self.announcer is not None:
            self.announcer.written(batch.ends, accepted)
        forget = self.forget
        for end, attempt in batch.ends:
            forget(end.id, attempt)
        if batch.backlog is not self._completions:
            self._tell_released(batch)
        if batch.backlog is self._settlements or batch.backlog is self._hooked:
            self._requeued.update(dict.fromkeys(attempt.queue for _, attempt in batch.ends))

    def _tell_released(self, batch: EndBatch[Any]) -> None:
        """Tell of the lanes whose jobs have given back their permits, or went back themselves."""
        claims = [attempt.claim for _, attempt in batch.ends]
        lanes = [each.lane for each in claims if each.hooks & LIMIT_HOOK or is_gated(each.lane)]
        if lanes:
            self.on_released(dict.fromkeys(lanes))

    def flushed(self, backlogs: Sequence[Backlog[Any]]) -> None:
        """Some of these backlogs have been written: there is room again."""
        if self._requeued:
            # Some may be due again soon; the claimer has to plan for it.
            queues, self._requeued = self._requeued, {}
            self.on_requeued(queues)
        self.on_flushed()

    def give_up(self, attempt: Attempt, end: Completion | Settlement, error: StoreError) -> bool:
        """Turn an end that the store refuses into a failed attempt that counts, once."""
        if attempt.refused:
            return False
        attempt.refused = True
        self._bus.emit(FinishGaveUp(end.id, end.task, str(error)))
        if not _counts(end):
            return False
        self.settle(attempt, as_failed_attempt(attempt, error))
        return True


def _counts(end: Completion | Settlement) -> bool:
    """Whether the job must not be run again as if this end had never been."""
    return is_terminal(end) or (isinstance(end, Settlement) and end.charged)
