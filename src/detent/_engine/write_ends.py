"""Writes ends of attempts in natural batches, whatever the store answers.

All that ended while the last write was on its way go with the next. There is no timer, and
nothing waits when nothing else does.

The ladder when the store does not take a batch:

- it gives no answer, or cannot write anything at the moment: the batch is kept and tried again
  with growing pauses, in halves from the second time on;
- rows are locked by another transaction: the others are written, those are set aside;
- it refuses: the batch is halved until only the guilty one is left, which is written without its
  result, or else as a failed attempt that counts.

No end is dropped while the claim is the node's own: what is refused to the last is set aside and
tried again until the node ends or loses its claims.
"""

import asyncio
from collections import deque
from collections.abc import Sequence
from typing import Any, Final, Protocol
from uuid import UUID

from detent._engine.attempt import Attempt
from detent._engine.backlog import GUILTY, SUSPECT, Backlog, End, EndBatch
from detent._engine.service import Service
from detent.errors import SchemaMismatch, StoreBusy, StoreError, StoreUnavailable
from detent.events import Bus, ClaimWasLost
from detent.model.job import Completion, Settlement
from detent.model.payloads import dropped
from detent.spi.runtime import Runtime
from detent.spi.store import InspectStore

IDLE: Final = 3_600.0
# A batch with a locked row is written in this many parts, and those again: two steps for 1,000.
PARTS: Final = 32
# What was set aside is tried again after this many seconds, longer each time it comes to nothing.
FIRST_PAUSE: Final = 0.5
LONGEST_PAUSE: Final = 10.0
ASIDE_AT_ONCE: Final = 10


class Accounts(Protocol):
    """What a writer tells about what it has written; the finisher is one."""

    node_id: UUID | None

    def may_write(self, node: UUID) -> bool: ...
    async def heed(self, node: UUID, batch: EndBatch[Any]) -> None:
        """Let jobs end that were asked to, before a batch is written with which they go back."""

    def written(self, batch: EndBatch[Any], accepted: Sequence[UUID]) -> None: ...
    def flushed(self, backlogs: Sequence[Backlog[Any]]) -> None: ...
    def give_up(self, attempt: Attempt, end: Completion | Settlement, error: StoreError) -> bool:
        """Let an end be followed by another one; return whether it was."""


class EndWriter(Service):
    """Writes ends of some kinds, one call at a time."""

    def __init__(
        self,
        runtime: Runtime,
        bus: Bus,
        inspect: InspectStore,
        accounts: Accounts,
        *,
        name: str,
        backlogs: Sequence[Backlog[Any]],
    ) -> None:
        super().__init__(runtime, bus)
        self.name = name
        self.backlogs = backlogs
        self.aside: deque[EndBatch[Any]] = deque()
        """Single ends that the store does not take, while it takes others."""
        self._inspect = inspect
        self._accounts = accounts
        self._writing = asyncio.Lock()
        self._task: asyncio.Task[Any] | None = None
        self._broken_off = False
        self._written = self._answers = 0
        self._aside_pause = FIRST_PAUSE
        self._aside_due = 0.0

    async def run_once(self) -> float:
        """Write everything that waits, in a few statements."""
        node = self._accounts.node_id
        if node is None:
            return self.unasked(IDLE)
        task = self._task = asyncio.current_task()
        answers = self._answers
        was_broken_off = False
        try:
            async with self._writing:
                await self._write_waiting(node)
        except asyncio.CancelledError:
            if task is None or not self._broken_off:
                raise
            task.uncancel()
            was_broken_off = True
        finally:
            self._broken_off = False
        pause = max(self._aside_due - self.runtime.monotonic(), 0.01) if self.aside else IDLE
        # What the fence broke off, and what was not even sent, says nothing about the store.
        has_answered = self._answers > answers and not was_broken_off
        return pause if has_answered else self.unasked(pause)

    def break_off(self) -> None:
        """Wait no longer for the call that is on its way; its batch is kept."""
        if self._task is not None and self._writing.locked():
            self._broken_off = True
            self._task.cancel()

    async def write_all(self, node: UUID) -> None:
        """Write everything in the name of `node` now; raise if the store gives no answer.

        What the store refuses, or what is locked, is set aside.
        """
        async with self._writing:
            self._aside_due = 0.0
            await self._write_waiting(node)

    async def _write_waiting(self, node: UUID) -> None:
        while self._accounts.may_write(node) and (any(self.backlogs) or self._is_aside_due()):
            touched = []
            for backlog in self.backlogs:
                for take in (backlog.take, backlog.take_failed):
                    batch = take()
                    if batch is not None:
                        touched.append(backlog)
                        await self._write_parts(node, [batch], hurried=False)
            if self._is_aside_due():
                await self._write_aside(node)
            self._accounts.flushed(touched)

    # One batch

    async def _write_parts(
        self, node: UUID, parts: Sequence[EndBatch[End]], *, hurried: bool = True
    ) -> None:
        """Write each of these; none of them is lost if one fails, or if the node is fenced."""
        for place, part in enumerate(parts):
            if not self._accounts.may_write(node):
                part.backlog.put_back(part)
                continue
            try:
                await self._write(node, part, hurried=hurried)
            except BaseException:
                for rest in parts[place + 1 :]:
                    rest.backlog.put_back(rest)
                raise

    async def _write(self, node: UUID, batch: EndBatch[End], *, hurried: bool) -> None:
        """Write a batch, or keep what of it cannot be written now."""
        backlog = batch.backlog
        write = backlog.write_part if hurried else backlog.write
        accepted: Sequence[UUID]
        try:
            await self._accounts.heed(node, batch)
        except BaseException:
            backlog.put_back(batch)
            raise
        try:
            accepted = await write(node, [end for end, _ in batch.ends])
        except StoreBusy:
            self._answers += 1
            await self._write_around(node, batch)
        except (StoreUnavailable, SchemaMismatch) as error:
            await self._unanswered(node, batch, error)
        except StoreError as error:
            self._answers += 1
            await self._refused(node, batch, error)
        except BaseException:
            self._keep(batch)
            raise
        else:
            if len(accepted) != len(batch.ends):
                accepted = [*accepted, *await self._tell_lost(node, batch, accepted)]
            self._written += 1
            self._answers += 1
            self._accounts.written(batch, accepted)

    def _keep(self, batch: EndBatch[End]) -> None:
        batch.failed(self._written)
        batch.backlog.keep(batch)

    async def _write_around(self, node: UUID, batch: EndBatch[End]) -> None:
        """Write those whose rows nobody else has locked."""
        if len(batch.ends) == 1:
            self._set_aside(batch)
        else:
            await self._write_parts(node, batch.parts(PARTS))

    async def _unanswered(self, node: UUID, batch: EndBatch[End], error: StoreError) -> None:
        """Keep a batch for the time when the store answers.

        A single end that fails while others are written is not the store's trouble but its own:
        it does not hold up the others, and counts as refused in the end.
        """
        batch.failed(self._written)
        if len(batch.ends) == 1 and batch.outdone >= GUILTY:
            await self._refused(node, batch, error)
        elif len(batch.ends) == 1 and batch.outdone >= SUSPECT:
            self._set_aside(batch)
        else:
            batch.backlog.keep(batch)
            raise error

    async def _refused(self, node: UUID, batch: EndBatch[End], error: StoreError) -> None:
        """Halve a batch that the store refuses, until only the guilty one is left."""
        if len(batch.ends) > 1:
            await self._write_parts(node, batch.parts(2))
            return
        ((end, attempt),) = batch.ends
        minimal = end
        if end.result is not None:
            minimal = end._replace(result=dropped("the store refused it"))
        if isinstance(minimal, Settlement):
            minimal = minimal._replace(error=None, reason=None)
        if minimal != end:
            again = EndBatch(batch.backlog, [(minimal, attempt)], batch.failures)
            await self._write_parts(node, [again])
        elif not self._accounts.give_up(attempt, end, error):
            self._set_aside(batch)

    # What was set aside

    def _set_aside(self, batch: EndBatch[Any]) -> None:
        self._aside_pause = FIRST_PAUSE
        soon = self.runtime.monotonic() + FIRST_PAUSE
        self._aside_due = min(self._aside_due, soon) if self.aside else soon
        self.aside.append(batch)

    def _is_aside_due(self) -> bool:
        return bool(self.aside) and self.runtime.monotonic() >= self._aside_due

    async def _write_aside(self, node: UUID) -> None:
        """Try some of those that were set aside; they come back there if it was in vain."""
        written, pause = self._written, self._aside_pause
        due = list(self.aside)[:ASIDE_AT_ONCE]
        for _ in due:
            self.aside.popleft()
        try:
            await self._write_parts(node, due)
        finally:
            longer = min(pause * 2, LONGEST_PAUSE)
            self._aside_pause = longer if self._written == written else FIRST_PAUSE
            self._aside_due = self.runtime.monotonic() + self._aside_pause

    # Lost claims

    async def _tell_lost(
        self, node: UUID, batch: EndBatch[End], accepted: Sequence[UUID]
    ) -> list[UUID]:
        """Say whose claims were lost; return those that were written by us, with a lost reply."""
        known = dict.fromkeys(accepted)
        missing = [end for end, _ in batch.ends if end.id not in known]
        ours: dict[tuple[UUID, int], None] = {}
        if batch.failures:
            try:
                ours = await self._written_before(node, missing)
            except BaseException:
                self._keep(batch)
                raise
        for end in missing:
            if (end.id, end.fence) not in ours:
                self.bus.emit(ClaimWasLost(end.id, end.task, node))
        return [end.id for end in missing if (end.id, end.fence) in ours]

    async def _written_before(
        self, node: UUID, ends: Sequence[Completion | Settlement]
    ) -> dict[tuple[UUID, int], None]:
        """Return which of these an earlier call has written although its reply was lost."""
        # A job that went back has moved on, and can no longer show that it was we who sent it.
        ours = {(end.id, end.fence): None for end in ends if not is_terminal(end)}
        if terminal := [end.id for end in ends if is_terminal(end)]:
            for job in await self._inspect.ended(terminal):
                if job.node == node and job.fence is not None:
                    ours[job.id, job.fence] = None
        return ours


def is_terminal(end: Completion | Settlement) -> bool:
    """Whether nothing follows on this end."""
    return isinstance(end, Completion) or end.state.terminal
