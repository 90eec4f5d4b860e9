"""Enqueues jobs: turns calls into rows (pure), and hands them to the store."""

import asyncio
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from typing import Any, Final, NamedTuple, TypeVar

from detent import key_digests
from detent.attached import check_text, checked_tags, encoded_params
from detent.coalesce import Coalescer, size_of, surely
from detent.config import LimitsConfig
from detent.connections import enqueue_within, enqueue_within_sync
from detent.errors import ConfigError, InvalidArguments, KeyTaken, PayloadTooLarge
from detent.events import JobEnqueued
from detent.fair_queues import FairQueue, gates_of_call
from detent.handle import Job
from detent.jobs import Jobs
from detent.lazy import PerLoop
from detent.limits import Declarations
from detent.listeners import Listeners
from detent.model.announce import Trigger, every_job
from detent.model.batches import batches
from detent.model.envelope import is_sealed
from detent.model.gates import is_gated, told_lanes
from detent.model.job import Hook, Keys, NewJob, Placed, lane_of, needs_of
from detent.model.schedule import Firing
from detent.options import watched_options
from detent.pace import LARGE, TURN
from detent.principal import current_principal
from detent.protection import Protection
from detent.spi.codec import Codec
from detent.spi.notifier import Hint, Notifier, token_of
from detent.spi.runtime import Runtime
from detent.spi.store import Store
from detent.tasks import NO_OPTIONS, BoundCall, Registry, Task

R = TypeVar("R")

CHUNK: Final = 1_000
_ARGS: Final = NewJob._fields.index("args")


class Prepared(NamedTuple):
    """A call as it will be stored."""

    job: NewJob
    keys: Keys | None


class Client:
    """The way in for new jobs."""

    def __init__(  # noqa: PLR0913  what it is made of, each by its name
        self,
        *,
        store: Store,
        notifier: Notifier | None,
        registry: Registry,
        codec: Codec,
        limits: LimitsConfig,
        runtime: Runtime,
        jobs: Jobs,
        triggers: Trigger = every_job,
        enqueuing: Sequence[Callable[[BoundCall[Any]], BoundCall[Any]]] = (),
        listeners: Listeners | None = None,
        sinks: Callable[[str], dict[str, list[str]]] = lambda _task: {},
        protection: Protection | None = None,
        declarations: Declarations | None = None,
        fair_queues: Mapping[str, FairQueue] | None = None,
    ) -> None:
        self._store = store
        self._notifier = notifier
        self._registry = registry
        self._codec = codec
        self._limits = limits
        self._runtime = runtime
        self._jobs = jobs
        self._triggers = triggers
        self._enqueuing = enqueuing
        self._listeners = listeners
        self._sinks = sinks
        self._protection = protection or Protection()
        self._declarations = declarations
        self._fair_queues = {} if fair_queues is None else fair_queues
        self._plain_rows: dict[Task[..., Any], tuple[tuple[Any, ...], tuple[Any, ...]]] = {}
        self._coalescers = PerLoop(
            lambda: Coalescer(store.enqueue_jobs, self.announce, self._hints)
        )

    async def enqueue(self, call: BoundCall[R]) -> Job[R]:
        """Store one job; return when it is durable."""
        coalescer = self._coalescers.here()
        pace = coalescer.pace
        if pace.spent:
            await pace.turn()
        job, keys = self.prepare(call)
        if len(job.args) >= LARGE:
            pace.spend(len(job.args))
        kept = keys
        if self._protection.active:
            job, kept = await key_digests.admit(self._protection, call, job, keys)
        if call.options.within is not None:
            (placed,) = await enqueue_within(self._store, call.options.within, [job], kept)
            await key_digests.compare(self._protection, call, keys, placed)
            return self._handle(call, placed)
        if call.task.options_declared.limits is not None and self._declarations is not None:
            # Not beside a caller's transaction, which may lock us out; nodes make sure as well.
            await surely(self._declarations.make_sure)
        if kept is None:
            await coalescer.enqueue((job,))
            placed = Placed(job.id, created=True)
        else:
            placed = await coalescer.to_its_end(self._place(job, kept))
            await key_digests.compare(self._protection, call, keys, placed)
        if not coalescer.announced:
            await self._see_off(coalescer)
        return self._handle(call, placed)

    async def _place(self, job: NewJob, keys: Keys) -> Placed:
        placed = await surely(partial(self._store.enqueue_keyed, job, keys))
        if placed.created:
            self.announce((job,))
        return placed

    async def _store_chunk(self, jobs: Sequence[NewJob]) -> None:
        await surely(partial(self._store.enqueue_jobs, jobs))
        self.announce(jobs)

    def enqueue_within_sync(self, call: BoundCall[R]) -> Job[R]:
        """Store one job in the transaction of a blocking connection, on this thread."""
        job, keys = self.prepare(call)
        kept = keys
        if self._protection.active:
            job, kept = key_digests.admit_sync(self._protection, call, job, keys)
        (placed,) = enqueue_within_sync(self._store, call.options.within, [job], kept)
        key_digests.compare_sync(self._protection, call, keys, placed)
        return self._handle(call, placed)

    async def enqueue_many(
        self, calls: Iterable[BoundCall[R]], *, within: Any = None
    ) -> list[Job[R]]:
        """Store many jobs, a thousand or 4 MiB a commit (or all in the caller's transaction).

        All calls are checked before the first is stored. Keys are for single calls.
        """
        calls = list(calls)
        jobs = await self._prepare_in_turns(calls)
        if within is None and self._declarations is not None and _have_limits(calls):
            await surely(self._declarations.make_sure)
        if self._protection.active:
            encrypted = [call.task.options_declared.encrypted for call in calls]
            admit = self._protection.admit
            jobs = [await admit(job, said) for job, said in zip(jobs, encrypted, strict=True)]
        coalescer = self._coalescers.here()
        for chunk in batches(jobs, size_of, CHUNK):
            if within is not None:
                await enqueue_within(self._store, within, chunk, None)
            else:
                await coalescer.to_its_end(self._store_chunk(chunk))
        if within is None and not coalescer.announced:
            await self._see_off(coalescer)
        return self._handles(calls, jobs)

    def enqueue_many_within_sync(self, calls: Iterable[BoundCall[R]], within: Any) -> list[Job[R]]:
        """Store many jobs in the transaction of a blocking connection, on this thread."""
        calls = list(calls)
        jobs = [self._prepare_one_of_many(number, call) for number, call in enumerate(calls)]
        if self._protection.active:
            encrypted = [call.task.options_declared.encrypted for call in calls]
            jobs = list(map(self._protection.admit_sync, jobs, encrypted))
        for chunk in batches(jobs, size_of, CHUNK):
            enqueue_within_sync(self._store, within, chunk, None)
        return self._handles(calls, jobs)

    async def _prepare_in_turns(self, calls: Sequence[BoundCall[Any]]) -> list[NewJob]:
        """Prepare many calls, and let others use the event loop in between."""
        jobs, size = list[NewJob](), 0
        for number, call in enumerate(calls, 1):
            job = self._prepare_one_of_many(number - 1, call)
            jobs.append(job)
            size += len(job.args)
            if size >= TURN or not number % CHUNK:
                size = 0
                await asyncio.sleep(0)
        return jobs

    def _prepare_one_of_many(self, number: int, call: BoundCall[Any]) -> NewJob:
        job, keys = self.prepare(call)
        if keys is not None or call.options.within is not None:
            raise ConfigError(
                f"enqueue_many: call {number} has key=, unique= or within=; enqueue it alone"
            )
        return job

    def _handles(self, calls: Sequence[BoundCall[R]], jobs: Sequence[NewJob]) -> list[Job[R]]:
        return [
            Job(job.id, True, self._jobs, call.task.signature.result_type)
            for job, call in zip(jobs, calls, strict=True)
        ]

    def prepare(self, call: BoundCall[Any]) -> Prepared:
        """Turn a call into what will be stored, or raise a typed error. Touches no store."""
        if not isinstance(call, BoundCall):
            raise ConfigError(f"enqueue({call!r}): must be a call, such as task.bind(...)")
        if self._enqueuing:
            call = self._passed_on(call)
        task, options = call.task, call.options
        args = task.signature.encode(self._codec, call.args, call.kwargs)
        if len(args) > self._limits.max_payload:
            raise PayloadTooLarge("the arguments", len(args), self._limits.max_payload)
        if options is NO_OPTIONS and current_principal() is None and not task.is_keyed:
            before, after = self._plain_rows.get(task) or self._plain_row(task)
            job = NewJob._make((self._runtime.new_id(), *before, args, *after))
            return Prepared(job, None)
        return self._prepare_with(call, args)

    def _passed_on(self, call: BoundCall[Any]) -> BoundCall[Any]:
        """Return a call as middleware lets it pass: of the same task, to the same place."""
        changed = call
        for step in self._enqueuing:
            changed = step(changed)
            if not isinstance(changed, BoundCall) or changed.task is not call.task:
                name = getattr(step, "__qualname__", repr(step))
                raise ConfigError(
                    f"the enqueue middleware {name} must return a call of {call.task.name}, "
                    f"not {changed!r}"
                )
        if changed.options.within is not call.options.within:
            raise ConfigError("enqueue middleware cannot change within=: it is the caller's")
        return changed

    def _plain_row(self, task: Task[..., Any]) -> tuple[tuple[Any, ...], tuple[Any, ...]]:
        """Return what all calls of a task without options share, around their arguments."""
        if self._registry.find(task.name) is not task:
            self._registry.get(task.name)
        job, _ = self._prepare_with(BoundCall(task, (), {}, NO_OPTIONS), b"")
        row = self._plain_rows[task] = (job[1:_ARGS], job[_ARGS + 1 :])
        return row

    def _prepare_with(self, call: BoundCall[Any], args: bytes) -> Prepared:
        task, options = call.task, call.options
        declared = task.options_declared
        queue = options.queue or declared.queue
        needs = declared.needs if options.needs is None else options.needs
        tags = checked_tags((*declared.tags, *options.tags), self._limits)
        keys = self._keys(call)
        principal = options.principal or current_principal()
        job = NewJob(
            id=self._runtime.new_id(),
            task=task.name,
            queue=queue,
            lane=self._lane(
                task, queue, needs, tags, lambda: task.signature.arguments(call.args, call.kwargs)
            ),
            priority=int(declared.priority if options.priority is None else options.priority),
            delay=0.0 if options.delay is None else options.delay.total_seconds(),
            due_at=options.at,
            args=args,
            codec=self._codec.name,
            options=options.stored(principal, self._runtime.utcnow),
            params=encoded_params(options.params, self._codec, self._limits),
            tags=tags,
            hooks=int(Hook.KEY) if keys is not None and keys.unique is not None else 0,
            principal=principal,
            trace=None,
        )
        return Prepared(self._watched(job), keys)

    def renewed(self, job: NewJob) -> NewJob:
        """Return a job that a schedule makes as its task and its queue are declared now.

        The schedule may be years old: without this its jobs would pass by newer limits.
        """
        lane = self.lane_now(job)
        if lane is None:
            return job
        return self._watched(job if lane == job.lane else job._replace(lane=lane))

    def lane_now(self, values: NewJob | Firing) -> str | None:
        """Return where a job like this would stand now; None if that cannot be told here."""
        task = self._registry.find(values.task)
        if task is None or is_sealed(values.args) or values.codec != self._codec.name:
            return None
        needs, signature = needs_of(values.lane), task.signature
        try:
            return self._lane(
                task,
                values.queue,
                needs,
                values.tags,
                lambda: signature.stored_arguments(self._codec, values.args),
            )
        except InvalidArguments:
            return None  # Whoever runs it will say what is wrong with it.

    def _lane(
        self,
        task: Task[..., Any],
        queue: str,
        needs: Sequence[str],
        tags: Sequence[str] | None,
        arguments: Callable[[], Mapping[str, Any]],
    ) -> str:
        """Return where a job will stand: behind the gates of its task and queue, if any."""
        limits, fair = task.options_declared.limits, self._fair_queues.get(queue)
        if limits is None and fair is None:
            return lane_of(queue, needs) if needs else queue
        keyed = fair is not None or (limits is not None and limits.keyed)
        given = arguments() if keyed else {}
        gates = gates_of_call(task.name, limits, fair, queue, given, tags or ())
        return lane_of(queue, needs, gates)

    def _watched(self, job: NewJob) -> NewJob:
        """Return a job with what its end needs to know of the sinks that are to hear of it."""
        sinks = self._sinks(job.task)
        if not sinks:
            return job
        hooks = int(job.hooks | Hook.EVENT)
        return job._replace(hooks=hooks, options=watched_options(job.options, sinks))

    def forget_rows(self) -> None:
        """Prepare calls anew: something was declared that concerns them."""
        self._plain_rows.clear()

    def _keys(self, call: BoundCall[Any]) -> Keys | None:
        options = call.options
        if options.key is None and options.unique is None:
            return None
        for name, key in (("key", options.key), ("unique", options.unique)):
            if key is not None:
                check_text(name, key, self._limits.max_key)
        digest = None
        if options.key is not None:
            digest = call.task.signature.digest(self._codec, call.args, call.kwargs)
        return Keys(options.key, options.key_ttl, options.unique, options.on_conflict, digest)

    def _handle(self, call: BoundCall[R], placed: Placed) -> Job[R]:
        if placed.taken_key is not None:
            raise KeyTaken(placed.taken_key, placed.id)
        return Job(placed.id, placed.created, self._jobs, call.task.signature.result_type)

    def announce(self, jobs: Sequence[NewJob], told: bool = False) -> None:
        """Tell listeners of new jobs, and wake the nodes unless they have been `told`."""
        if self._listeners is not None and self._listeners.wants(JobEnqueued):
            for job in jobs:
                event = JobEnqueued(job.id, job.task, job.queue, job.priority)
                self._listeners.announce(event)
        if self._notifier is not None and not told and (hints := self._hints(jobs)):
            self._notifier.publish(hints)

    def _hints(self, jobs: Sequence[NewJob]) -> list[Hint]:
        """Return what to tell the nodes; a due time of the caller may lie below their floors."""
        if self._notifier is None:
            return []
        if self._triggers is not every_job:
            jobs = [job for job in jobs if self._triggers(job)]
        token = token_of(jobs[0].id) if len(jobs) == 1 and not jobs[0].delay else None
        hints = [Hint(lane, priority, token=token) for lane, priority in _lanes_told(jobs).items()]
        hints += [
            Hint(job.lane, job.priority, job.due_at, job.id)
            for job in jobs
            if job.due_at is not None
        ]
        return hints

    async def _see_off(self, coalescer: Coalescer) -> None:
        """Wait for the first wake-up of a loop: a script may end, or stop its loop, right after.

        Only for the first: from then on they go out beside the enqueues, at no cost to them.
        """
        coalescer.announced = True
        if self._notifier is not None:
            await self._notifier.flush()

    async def close(self) -> None:
        """Wait until what is on its way is stored, and nodes have been told."""
        found = self._coalescers.take()
        if found is not None:
            await found.flushed()
        if self._notifier is not None:
            await self._notifier.flush()


def _have_limits(calls: Sequence[BoundCall[Any]]) -> bool:
    return any(task.options_declared.limits for task in {call.task: None for call in calls})


def _lanes_told(jobs: Sequence[NewJob]) -> dict[str, int | None]:
    """Return the lanes of jobs without a due time, and how urgent it is behind gates.

    Of lanes without gates nobody asks: they are merged by the claim itself. Of many keys of one
    limit a single hint tells.
    """
    lanes: dict[str, int | None] = {job.lane: None for job in jobs if job.due_at is None}
    if any(map(is_gated, lanes)):
        for job in sorted(jobs, key=lambda job: job.priority):
            if job.due_at is None and is_gated(job.lane):
                lanes[job.lane] = job.priority
    return told_lanes(lanes)
