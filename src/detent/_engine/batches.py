"""Gives many jobs to one call: gathers the claims of batch tasks, and runs them together.

Each job keeps its own claim, fence, attempt and end: only the call is shared. Claims that are being
gathered occupy no slot, and a batch that runs occupies one.
"""

import asyncio
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from detent._engine.attempt import Attempt, Stop
from detent._engine.call import call, start_timer
from detent._engine.execute import (
    LOAD_AGAIN,
    SUCCEEDED,
    Ends,
    decode_arguments,
    flush_side_writes,
    keep_result,
    outcome_of,
    report,
    stopped,
    tell_started,
)
from detent._engine.expiry import end_late
from detent._engine.guards import run_guarded, tell_guards
from detent._engine.unseal import unseal
from detent.batch import BatchItem
from detent.context import JobContext
from detent.errors import StoreError
from detent.events import JobStarted, StoreTrouble
from detent.model.envelope import MARKER
from detent.model.job import SUSPECT
from detent.model.outcome import Ending, Outcome
from detent.principal import inherit
from detent.spi.runtime import Cancelable, Runtime
from detent.tasks import Task


class Batch:
    """Jobs for one call. The first of them stands for all where slots and threads are counted."""

    def __init__(self, task: Task[..., Any], attempts: Sequence[Attempt]) -> None:
        self.task = task
        self.attempts = attempts
        self.work: Any = None
        """The asyncio task that makes the call."""
        self.begun = False
        """Whether that has taken its first step: canceled before, it would never run."""
        self.entries: Sequence[Entry] = ()
        for attempt in attempts:
            attempt.task, attempt.begun = self, True
        self.lead = attempts[0]
        self.lead.batch = self

    def cancel(self) -> None:
        """Be told that one of the jobs has to stop; the call goes on while another needs it."""
        if not self.begun or self.work is None:
            return
        if self.is_canceled:
            self.work.cancel()

    @property
    def is_canceled(self) -> bool:
        """Whether no job needs the call any more."""
        return all(each.stop or each.over for each in self.attempts)

    def uncancel(self) -> None:
        """Be told that a cancel is being dealt with."""
        if self.work is not None:
            self.work.uncancel()

    def let_go(self) -> None:
        """Forget the call, which knows the jobs: a circle for the garbage collector."""
        self.work = None
        for attempt in self.attempts:
            attempt.task = None


class Gathering:
    """Claims of one task and queue that wait for more."""

    def __init__(self, task: Task[..., Any], on_ready: Callable[["Gathering"], None]) -> None:
        self.task = task
        self.attempts: list[Attempt] = []
        self.timer: Cancelable | None = None
        self._on_ready = on_ready

    @property
    def missing(self) -> int:
        """How many more it could take."""
        return (self.task.options_declared.batch or 1) - len(self.attempts)

    def cancel(self) -> None:
        """Be told that one of them has to stop: that need not wait for the others."""
        self._on_ready(self)


class Batches:
    """All gatherings of a node."""

    def __init__(self, runtime: Runtime, on_batch: Callable[[Attempt], None]) -> None:
        self._runtime = runtime
        self._on_batch = on_batch
        self.open: dict[tuple[str, str], Gathering] = {}
        self._credit: dict[str, int] = {}
        """How many claims more each queue may take for what is being gathered."""

    def take(self, attempt: Attempt, task: Task[..., Any]) -> None:
        """Let a claim wait for others, until there are enough of them or it is time."""
        if attempt.claim.lane.endswith(SUSPECT):
            # It may kill its node: the others must not die with it.
            self._on_batch(Batch(task, [attempt]).lead)
            return
        key = (task.name, attempt.queue)
        gathering = self.open.get(key)
        if gathering is None:
            gathering = self.open[key] = Gathering(task, lambda _gathering: self._end(key))
            linger = task.options_declared.linger.total_seconds()
            gathering.timer = self._runtime.later(linger, lambda: self._end(key))
        gathering.attempts.append(attempt)
        attempt.task, attempt.begun = gathering, True
        if gathering.missing <= 0:
            self._end(key)

    def appetite(self) -> Mapping[str, int]:
        """Return how many claims more each queue should take to fill what is being gathered.

        A claim cannot ask for the jobs of one task. So a queue takes at most twice as many more as
        a claim has lately brought for batches, and none while it brings jobs that find no slot.
        """
        missing: dict[str, int] = {}
        for (_, queue), gathering in self.open.items():
            missing[queue] = missing.get(queue, 0) + gathering.missing
        return {queue: min(n, self._credit.get(queue, 0)) for queue, n in missing.items()}

    def learn(self, queue: str, gathered: int, crowded: bool) -> None:
        """Take note of what a claim has brought, and whether others of it have to wait."""
        self._credit[queue] = 0 if crowded else max(self._credit.get(queue, 0), 2 * gathered)

    def take_back(self) -> list[Attempt]:
        """Return all that is being gathered, and gather none of it any more."""
        attempts = [each for gathering in self.open.values() for each in gathering.attempts]
        for gathering in self.open.values():
            if gathering.timer is not None:
                gathering.timer.cancel()
        self.open.clear()
        return attempts

    def _end(self, key: tuple[str, str]) -> None:
        gathering = self.open.pop(key, None)
        if gathering is None:
            return
        if gathering.timer is not None:
            gathering.timer.cancel()
        for attempt in gathering.attempts:
            # From now on it waits for a slot; so far it waited for the others.
            attempt.started = self._runtime.monotonic()
        self._on_batch(Batch(gathering.task, gathering.attempts).lead)


class Entry:
    """One job on its way through a call."""

    __slots__ = ("args", "attempt", "item", "outcome")

    def __init__(self, attempt: Attempt) -> None:
        self.attempt = attempt
        self.args = attempt.claim.args or b""
        self.item: BatchItem[Any] | None = None
        self.outcome: Outcome | None = None


async def execute_batch(batch: Batch, ends: Ends, on_end: Callable[[Attempt], None]) -> None:
    """Run a batch from its first step to its last; never raises."""
    batch.begun = True
    entries = batch.entries = [Entry(attempt) for attempt in batch.attempts]
    try:
        results = await _run(batch, entries)
    except BaseException as error:  # noqa: BLE001  the user's function: an outcome for each, always
        for entry in entries:
            entry.outcome = entry.outcome or _failed(entry, error)
    else:
        for entry, result in zip(_running(entries), results, strict=True):
            entry.outcome = _ended(entry, batch.task, result)
    if batch.lead.lingering and batch.task.is_async:
        # It was given up, and its ends are written; see `stuck`.
        batch.lead.free()
        return
    try:
        for entry in entries:
            _close(entry)
        said = [each for each in batch.attempts if each.side_writes and not _is_dropped(each)]
        if said:
            # One flush takes what all of them said.
            await flush_side_writes(said[0])
        for entry in entries:
            report(entry.attempt, entry.outcome or SUCCEEDED, ends)
    finally:
        on_end(batch.lead)


def _close(entry: Entry) -> None:
    attempt = entry.attempt
    attempt.over = True
    if attempt.timer is not None:
        attempt.timer.cancel()
    if attempt.admitted_by and entry.outcome is not None:
        tell_guards(attempt, entry.outcome)


def _is_dropped(attempt: Attempt) -> bool:
    """Whether nothing more will be written about a job: it was, or must not be."""
    return attempt.completed or attempt.stop is Stop.FENCED


def _running(entries: Sequence[Entry]) -> list[Entry]:
    """Return those that the call is about: nothing has ended them before it."""
    return [entry for entry in entries if entry.outcome is None]


def _wanted(entries: Sequence[Entry]) -> Iterator[Entry]:
    """Yield those of them that nobody has stopped by then; the others end where these begin."""
    return (entry for entry in _running(entries) if entry.attempt.stop is None)


async def _run(batch: Batch, entries: Sequence[Entry]) -> Sequence[Any]:
    """Load, admit, open, decode, run; return what the function did, a value for each that ran."""
    end_late(entries)
    await _load(batch, entries)
    await _admit(batch, entries)
    await _open(batch, entries)
    _begin(batch, entries)
    items = [entry.item for entry in _running(entries)]
    given = tuple(items)
    if not items:
        return []
    principals = {each.attempt.principal: None for each in _running(entries)}
    if len(principals) == 1:
        # What the call enqueues is in the name of all of them; of different ones it is in nobody's.
        inherit(*principals)
    task = batch.task
    if task.is_async and not _has_more(batch):
        returned = await task.function(items)
    else:
        returned = await call(batch.lead, task, b"", [items], {}, members=batch.attempts)
    return _checked(task.name, returned, given, items)


def _has_more(batch: Batch) -> bool:
    """Whether a call is more than a call of the function."""
    task = batch.task
    return bool(
        batch.lead.bench.middleware
        or task.options_declared.middleware
        or task.signature.injected
        or task.signature.is_method
    )


async def _load(batch: Batch, entries: Sequence[Entry]) -> None:
    """Fetch the arguments of those whose claims came without, in one statement."""
    bench = batch.lead.bench
    missing = [entry for entry in entries if entry.attempt.claim.args is None]
    if not missing:
        return
    try:
        payloads = await bench.claims.load_args([entry.attempt.claim for entry in missing])
    except StoreError as error:
        bench.bus.emit(StoreTrouble("loading", str(error), LOAD_AGAIN.total_seconds()))
        for entry in missing:
            _end(entry, Outcome(Ending.SNOOZED, wait=LOAD_AGAIN))
        return
    for entry in missing:
        try:
            entry.args = payloads[entry.attempt.claim.id]
        except KeyError as error:
            # It was removed, and its claim with it; the others are there.
            _end(entry, outcome_of(entry.attempt, error))


async def _admit(batch: Batch, entries: Sequence[Entry]) -> None:
    """Ask the guards about each job."""
    for entry in entries:
        entry.attempt.job_task = batch.task
    if not batch.lead.bench.guards:
        return
    for entry in _wanted(entries):
        try:
            refusal = await run_guarded(entry.attempt, _let_in)
        except BaseException as error:  # noqa: BLE001  a guard's answer about one job only
            refusal = outcome_of(entry.attempt, error)
        if refusal is not SUCCEEDED:
            _end(entry, refusal)


async def _open(batch: Batch, entries: Sequence[Entry]) -> None:
    """Open what is sealed, all at once: so a provider of keys is asked, and waited for, once."""
    has_keys = batch.lead.bench.sealing is not None
    sealed = [each for each in _wanted(entries) if has_keys or each.args.startswith(MARKER)]
    if not sealed:
        return
    opening = [unseal(entry.attempt, batch.task, entry.args) for entry in sealed]
    for entry, opened in zip(
        sealed, await asyncio.gather(*opening, return_exceptions=True), strict=True
    ):
        if isinstance(opened, bytes):
            entry.args = opened
        elif isinstance(opened, Outcome):
            _end(entry, opened)
        else:
            _end(entry, outcome_of(entry.attempt, opened))


def _begin(batch: Batch, entries: Sequence[Entry]) -> None:
    """Make items of the jobs, and let their time run; nothing has to be waited for any more."""
    bench = batch.lead.bench
    for entry in _running(entries):
        attempt = entry.attempt
        if attempt.stop is not None or not bench.may_run():
            _end(entry, stopped(attempt))
            continue
        try:
            (value,), _ = decode_arguments(attempt, batch.task, entry.args)
        except BaseException as error:  # noqa: BLE001  the arguments of one job only
            _end(entry, outcome_of(attempt, error))
            continue
        entry.item = BatchItem(value, JobContext(attempt))
        attempt.started = bench.runtime.monotonic()
        attempt.calling = True
        start_timer(attempt, batch.task)
        if bench.bus.wants(JobStarted) or bench.heard:
            tell_started(attempt)


def _end(entry: Entry, outcome: Outcome) -> None:
    """Let nothing more be done about a job: the call is not about it."""
    entry.outcome, entry.attempt.over = outcome, True


async def _let_in(_attempt: Attempt) -> Outcome:
    return SUCCEEDED


def _checked(name: str, returned: Any, given: Sequence[Any], items: list[Any]) -> Sequence[Any]:
    """Return one result for each item; `items` is the list as the function has left it."""
    count = len(given)
    if returned is None:
        return [None] * count
    if isinstance(returned, str | bytes) or not isinstance(returned, Sequence):
        raise TypeError(f"{name}() must return None or a list of results, not {returned!r:.100}")
    if len(returned) != count:
        raise TypeError(f"{name}() returned {len(returned)} results for {count} items")
    places = {id(item): place for place, item in enumerate(items)}
    if len(items) != count or any(id(item) not in places for item in given):
        raise TypeError(
            f"{name}() changed the list that it was given, so its results cannot be told apart; "
            f"use item.succeed(result)"
        )
    # It may have sorted them: a result belongs to the item that stands in its place.
    return [returned[places[id(item)]] for item in given]


def _failed(entry: Entry, error: BaseException) -> Outcome:
    """Return what becomes of a job when the call raised, or was canceled."""
    word = last_word(entry)
    return outcome_of(entry.attempt, error) if word is None else word


def _ended(entry: Entry, task: Task[..., Any], result: Any) -> Outcome:
    """Return what becomes of a job when the call returned."""
    word = last_word(entry)
    return _kept(entry.attempt, task, result) if word is None else word


def last_word(entry: Entry) -> Outcome | None:
    """Return what the job's own fate is, whatever the call came to: None if that decides.

    What was said about an item counts also when the call was stopped after it.
    """
    attempt, item = entry.attempt, entry.item
    if attempt.completed:
        return SUCCEEDED
    if attempt.stop in (Stop.CANCEL, Stop.FENCED):
        return stopped(attempt)
    if item is not None and item.decided:
        attempt.stop = None
        if item.error is not None:
            return outcome_of(attempt, item.error)
        assert attempt.job_task is not None
        return _kept(attempt, attempt.job_task, item.result)
    return stopped(attempt) if attempt.stop is Stop.TIMEOUT else None


def _kept(attempt: Attempt, task: Task[..., Any], result: Any) -> Outcome:
    try:
        keep_result(attempt, task, result)
    except BaseException as error:  # noqa: BLE001  the user's value: one job's trouble
        return outcome_of(attempt, error)
    return SUCCEEDED
