"""Serving running jobs: what others say to them, and what they say themselves."""

from collections.abc import Sequence
from datetime import datetime
from uuid import UUID

from detent.model.job import LogEntry, LogLine, Progress, Signal
from detent.stores.memory.finish import valid_claim
from detent.stores.memory.nodes import claims_of
from detent.stores.memory.tables import CANCEL, Tables


def signals_for(tables: Tables, now: datetime, node: UUID) -> list[Signal]:
    """Return the messages for jobs that the node runs."""
    return [
        Signal(job_id, fence, CANCEL, tables.signals[job_id, CANCEL])
        for job_id, fence in claims_of(tables, now, node)
        if (job_id, CANCEL) in tables.signals
    ]


def save_progress(tables: Tables, now: datetime, node: UUID, progress: Sequence[Progress]) -> None:
    """Keep the latest progress of jobs whose claim is valid."""
    for each in progress:
        if valid_claim(tables, node, each.id, each.fence) is not None:
            tables.progress[each.id] = each


def append_log(tables: Tables, now: datetime, node: UUID, lines: Sequence[LogLine]) -> None:
    """Append log lines of jobs whose claim is valid."""
    for line in lines:
        if valid_claim(tables, node, line.id, line.fence) is not None:
            entry = LogEntry(now, line.attempt, line.level, line.message)
            tables.log[line.id] = (*tables.log.get(line.id, ()), entry)
