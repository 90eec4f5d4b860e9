"""What came of the demonstration: every job accounted for."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final
from uuid import UUID

from detent.app import App
from detent.model.job import JobInfo
from detent.model.state import State

PAGE: Final = 500


@dataclass(frozen=True, slots=True)
class Ledger:
    """The numbers."""

    enqueued: int
    succeeded: int
    retried: int
    dead_lettered: int
    canceled: int
    rescued: int
    lost: int
    seconds: float
    rate: float
    wait_p50: float
    wait_p99: float

    def lines(self) -> list[tuple[str, str]]:
        """Return names and values for people."""
        return [
            ("enqueued", f"{self.enqueued:,}"),
            ("succeeded", f"{self.succeeded:,}"),
            ("retried", f"{self.retried:,}"),
            ("dead-lettered", f"{self.dead_lettered:,}"),
            ("canceled", f"{self.canceled:,}"),
            ("rescued", f"{self.rescued:,}"),
            ("lost", f"{self.lost:,}"),
            ("jobs/s", f"{self.rate:,.0f}"),
            ("wait p50", f"{self.wait_p50 * 1000:,.0f} ms"),
            ("wait p99", f"{self.wait_p99 * 1000:,.0f} ms"),
        ]


async def account(
    app: App, acknowledged: Collection[UUID], rescued: Collection[UUID], seconds: float
) -> Ledger:
    """Go through all jobs, and count; what was acknowledged and has not ended is lost."""
    jobs = await _all(app)
    states = {state: [job for job in jobs if job.state is state] for state in State}
    waits = sorted(
        (job.started_at - job.due_at).total_seconds()
        for job in states[State.SUCCEEDED]
        # What was tried again did not wait for a node all that time.
        if job.started_at is not None and job.attempt == 1 and job.id not in rescued
    )
    ended = {job.id for job in jobs if job.state.terminal}
    return Ledger(
        enqueued=len(acknowledged),
        succeeded=len(states[State.SUCCEEDED]),
        retried=sum(job.attempt > 1 for job in jobs),
        dead_lettered=len(states[State.FAILED]),
        canceled=len(states[State.CANCELED]),
        rescued=len(rescued),
        lost=len(set(acknowledged) - ended),
        seconds=seconds,
        rate=len(ended) / seconds,
        wait_p50=_share(waits, 0.5),
        wait_p99=_share(waits, 0.99),
    )


async def _all(app: App) -> list[JobInfo]:
    jobs: list[JobInfo] = []
    while page := await app.jobs.list(limit=PAGE, before=jobs[-1].id if jobs else None):
        jobs += page
    return jobs


def _share(values: Sequence[float], share: float) -> float:
    return values[min(int(len(values) * share), len(values) - 1)] if values else 0.0


def as_json(ledger: Ledger) -> Mapping[str, Any]:
    """Return the numbers for programs."""
    return {name: getattr(ledger, name) for name in Ledger.__slots__}
