"""Says what was written, when it is: to listeners of the application, and to those who alert.

Until a write is committed nobody is told; what was refused, or came to nothing, is never told.
"""

from collections.abc import Iterable, Sequence
from typing import Final
from uuid import UUID

from detent._engine.alert import Alerter
from detent._engine.attempt import Attempt
from detent._engine.deliver import Deliverer, DeliverStore
from detent._engine.service import Service
from detent.config import Config
from detent.events import Bus, JobDied, JobEnqueued, JobWasCanceled
from detent.listeners import Audience, Listeners
from detent.model.failure import Clean
from detent.model.job import Completion, Hook, NewJob, Settlement
from detent.model.state import State
from detent.spi.notifier import Wake
from detent.spi.outbox import OUTBOX
from detent.spi.rescue import Rescued
from detent.spi.runtime import Runtime

CRASHED: Final = "NodeDied: the node that ran it died, again and again"


class Announcer:
    """Passes on what the writers of a node have written."""

    def __init__(
        self,
        runtime: Runtime,
        bus: Bus,
        store: DeliverStore,
        audience: Audience | None,
        config: Config,
        clean: Clean | None = None,
    ) -> None:
        audience = audience or Audience(Listeners(runtime, bus))
        self.listeners = audience.listeners
        self._drain_limit = config.events.drain_timeout.total_seconds()
        self._deliverer: Deliverer | None = None
        self._alerter: Alerter | None = None
        if audience.outlets:
            self._deliverer = Deliverer(
                runtime,
                bus,
                store,
                audience.outlets,
                keep_undeliverable=config.events.keep_undeliverable,
                keep_alerts=config.alerts.keep,
            )
            self._deliverer.clean = clean
        if audience.alerted:
            self._alerter = Alerter(
                runtime,
                bus,
                store,
                window=config.alerts.window,
                most_kinds=config.alerts.most_kinds,
                sinks=audience.alerted,
            )
            self._alerter.on_raised = self._wake_deliverer

    @property
    def services(self) -> Sequence[Service]:
        """Those that go on until all that was written has been told; mostly none."""
        return [each for each in (self._alerter, self._deliverer) if each is not None]

    def receive(self, wakes: Sequence[Wake]) -> None:
        """Take wake-ups; nothing in them means that some may be missing."""
        if self._deliverer is not None and (
            not wakes or any(getattr(wake, "lane", None) == OUTBOX for wake in wakes)
        ):
            self._deliverer.wake()

    async def close(self) -> None:
        """Let listeners hear the last."""
        await self.listeners.drain(self._drain_limit)

    def written(
        self, ends: Iterable[tuple[Completion | Settlement, Attempt]], accepted: Sequence[UUID]
    ) -> None:
        """The finisher has written these ends, as far as they were accepted."""
        if not self.listeners.by_type and self._alerter is None and self._deliverer is None:
            return
        known = dict.fromkeys(accepted)
        for end, attempt in ends:
            if end.id not in known:
                continue
            for event in attempt.news:
                self.listeners.publish(event)
            if isinstance(end, Settlement) and end.state is State.FAILED:
                self._failed(end.task, end.id, end.error, attempt.failure)
            self._watched(attempt)

    def enqueued(self, jobs: Iterable[NewJob]) -> None:
        """The firer has stored these, for slots of schedules."""
        if JobEnqueued in self.listeners.by_type:
            for job in jobs:
                event = JobEnqueued(job.id, job.task, job.queue, job.priority)
                self.listeners.publish(event)

    def completed(self, attempt: Attempt) -> None:
        """A transaction of its own has ended this one."""
        for event in attempt.news:
            self.listeners.publish(event)
        self._watched(attempt)

    def rescued(self, jobs: Sequence[Rescued]) -> None:
        """The rescuer has taken these from a dead node."""
        for job in jobs:
            who = (job.id, job.task, job.queue, job.attempt, job.node)
            if job.state is State.FAILED:
                self._failed(job.task, job.id, None, CRASHED)
                if JobDied in self.listeners.by_type:
                    self.listeners.publish(JobDied(*who, CRASHED))
            elif job.state is State.CANCELED and JobWasCanceled in self.listeners.by_type:
                self.listeners.publish(JobWasCanceled(*who, None))
        if jobs:
            self._wake_deliverer()

    def _watched(self, attempt: Attempt) -> None:
        if attempt.claim.hooks & Hook.EVENT:
            self._wake_deliverer()

    def _wake_deliverer(self) -> None:
        if self._deliverer is not None:
            self._deliverer.wake()

    def _failed(self, task: str, job: UUID, error: bytes | None, words: str) -> None:
        if self._alerter is not None:
            self._alerter.note(task, job, error, words)
