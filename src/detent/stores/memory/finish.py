"""Taking the ends of claims: each is accepted once, from the one node whose claim it is."""

from collections.abc import Sequence
from datetime import datetime, timedelta
from uuid import UUID

from detent.model.job import Attempt, Completion, Settlement
from detent.model.state import State
from detent.stores.memory.ending import end
from detent.stores.memory.tables import Outcome, Parked, Running, Tables


def finish_jobs(
    tables: Tables, now: datetime, node: UUID, completions: Sequence[Completion]
) -> list[UUID]:
    """Write successes of jobs without hooks."""
    return settle_jobs(tables, now, node, [each.as_settlement() for each in completions])


def settle_jobs(
    tables: Tables, now: datetime, node: UUID, settlements: Sequence[Settlement]
) -> list[UUID]:
    """Write any end of jobs without hooks."""
    for each in settlements:
        claim = valid_claim(tables, node, each.id, each.fence)
        assert claim is None or not claim.place.hooks, f"{each.id} has hooks: use finish_hooked"
    return finish_hooked(tables, now, node, settlements)


def finish_hooked(
    tables: Tables, now: datetime, node: UUID, settlements: Sequence[Settlement]
) -> list[UUID]:
    """Write any end of any job; return the ids whose claim was still valid."""
    accepted = []
    for each in sorted(settlements, key=lambda settlement: settlement.id):
        claim = valid_claim(tables, node, each.id, each.fence)
        if claim is not None:
            _settle(tables, now, claim, each)
            accepted.append(each.id)
    return accepted


def valid_claim(tables: Tables, node: UUID, job_id: UUID, fence: int) -> Running | None:
    """Return the claim if (id, fence, node) stands among the running jobs."""
    claim = tables.running.get(job_id)
    if claim is None or claim.fence != fence or claim.node != node:
        return None
    return claim


def _settle(tables: Tables, now: datetime, claim: Running, said: Settlement) -> None:
    place = claim.place
    started_at = now - timedelta(seconds=said.lasted)
    if said.kind is not None:
        tried = Attempt(
            number=place.attempt,
            generation=place.generation,
            kind=said.kind,
            node=claim.node,
            started_at=started_at,
            ended_at=now,
            error=said.error,
        )
        tables.attempts[said.id] = (*tables.attempts.get(said.id, ()), tried)
    if said.state.terminal:
        end(tables, now, _outcome(now, claim, said, started_at))
    else:
        _go_back(tables, now, claim, said)


def _go_back(tables: Tables, now: datetime, claim: Running, said: Settlement) -> None:
    del tables.running[said.id]
    tables.progress.pop(said.id, None)
    place = claim.place._replace(attempt=claim.place.attempt + int(said.charged))
    if said.delay is not None:
        place = place._replace(due_at=now + timedelta(seconds=said.delay))
    tables.hold(claim)
    if said.state is State.PENDING:
        tables.put_back(place)
    else:
        tables.parked[said.id] = Parked(place, said.reason or "waiting")


def _outcome(now: datetime, claim: Running, said: Settlement, started_at: datetime) -> Outcome:
    return Outcome(
        id=said.id,
        state=said.state,
        generation=claim.place.generation,
        attempt=claim.place.attempt,
        finished_at=now,
        fence=claim.fence,
        node=claim.node,
        started_at=started_at,
        duration=timedelta(seconds=said.lasted),
        result=said.result,
        error=said.error,
        reason=said.reason,
    )
