"""Things that many tests do with a store on the way to what they are about."""

from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Any, NamedTuple
from uuid import UUID

from detent.model.job import Claim, JobInfo, Keys, NewJob, Placed, Settlement
from detent.model.state import State, Verb
from detent.spi.leadership import Bid, Candidate, Term
from detent.spi.store import Change, Store
from detent.testing.conformance.builders import (
    HOUR,
    canceled,
    claim_request,
    failed,
    lane_scan,
    new_id,
    new_job,
    node_identity,
    parked,
    prepared,
    settlement,
)


class Held(NamedTuple):
    """A claim and the node that holds it."""

    node: UUID
    claim: Claim


async def now_of(store: Store) -> datetime:
    """Return the store's now; the answer to a heartbeat has it, even to a stranger's."""
    return (await store.beat(new_id(), HOUR)).now


async def joined(store: Store, lease: timedelta = HOUR) -> UUID:
    """Return the incarnation of a new node."""
    node = node_identity()
    await store.join(node, lease)
    return node.incarnation


async def enqueued(store: Store, *jobs: NewJob) -> list[UUID]:
    """Enqueue jobs and return their ids; without any, one plain job."""
    new = jobs or (new_job(),)
    await store.enqueue_jobs(new)
    return [job.id for job in new]


async def place(store: Store, job: NewJob, keys: Keys) -> Placed:
    """Enqueue one job with keys, as a client does."""
    return await store.enqueue_keyed(prepared(job, keys), keys)


async def place_within(store: Store, connection: Any, job: NewJob, keys: Keys) -> Placed:
    """Enqueue one job with keys inside the caller's transaction, as a client does."""
    (placed,) = await store.enqueue_within(connection, [prepared(job, keys)], keys)
    return placed


async def claimed(store: Store, node: UUID, queue: str = "default", **options: Any) -> list[Claim]:
    """Claim all due jobs of a queue."""
    return await store.claim_jobs(claim_request(node, lane_scan(queue), **options))


async def claimed_ids(
    store: Store, node: UUID, queue: str = "default", **options: Any
) -> list[UUID]:
    """Claim all due jobs of a queue and return their ids, best first."""
    return [claim.id for claim in await claimed(store, node, queue, **options)]


async def held(store: Store, job: NewJob | None = None, keys: Keys | None = None) -> Held:
    """Enqueue one job on a queue where nothing else is due, and claim it with a new node."""
    job = job or new_job()
    if keys is None:
        await store.enqueue_jobs([job])
    else:
        placed = await place(store, job, keys)
        assert placed.created, f"the key was taken: {placed}"
    node = await joined(store)
    claims = await claimed(store, node, job.queue)
    assert [claim.id for claim in claims] == [job.id], "one due job, and it is ours"
    return Held(node, claims[0])


async def held_many(store: Store, count: int) -> tuple[UUID, list[Claim]]:
    """Enqueue plain jobs and claim them all with one new node."""
    await store.enqueue_jobs([new_job() for _ in range(count)])
    node = await joined(store)
    claims = await claimed(store, node)
    assert len(claims) == count
    return node, claims


async def crash_nodes(store: Store, times: int, max_crashes: int = 3) -> None:
    """Let the only due job of the default queue kill one new node after the other.

    A suspect waits in another lane. So the job must not be a suspect before the last time.
    """
    for _ in range(times):
        node = await joined(store)
        assert len(await claimed(store, node)) == 1, "a due job, and no suspect"
        await store.declare_dead([node], "it burned")
        await store.rescue(10, max_crashes)


async def settled(store: Store, holding: Held, said: Settlement) -> None:
    """Write the end of a claim, which has to be accepted."""
    if holding.claim.hooks:
        accepted = await store.finish_hooked(holding.node, [said])
    else:
        accepted = await store.settle_jobs(holding.node, [said])
    assert accepted == [holding.claim.id], "a valid claim"


async def info(store: Store, job_id: UUID) -> JobInfo:
    """Return what the store knows about one job, which has to exist."""
    (found,) = await store.get_jobs([job_id])
    return found


async def state_of(store: Store, job_id: UUID) -> State:
    """Return the state of one job."""
    return (await info(store, job_id)).state


async def succession(store: Store) -> tuple[Term, Term]:
    """Return a term that is over, and the one that followed it."""
    terms = []
    for name in ("web-1", "web-2"):
        candidate = Candidate(new_id(), name)
        (leader,) = await store.elect(candidate, [Bid("maintenance")], timedelta(hours=1))
        assert leader.holder == candidate.id, "the role was not free"
        terms.append(Term("maintenance", leader.term, candidate.id))
        if name == "web-1":
            await store.resign(candidate.id, terms)
    return terms[0], terms[1]


async def states_of(store: Store, ids: Sequence[UUID]) -> list[State]:
    """Return the states of several jobs."""
    return [found.state for found in await store.get_jobs(ids)]


async def in_state(
    store: Store, state: State, job: NewJob | None = None, keys: Keys | None = None
) -> UUID:
    """Return a job that was brought to a state, by the ways that lead there."""
    job = job or new_job()
    if state in (State.PENDING, State.PAUSED):
        if keys is None:
            await store.enqueue_jobs([job])
        else:
            await place(store, job, keys)
        if state is State.PAUSED:
            await store.control_job(Verb.PAUSE, job.id, Change())
        return job.id
    holding = await held(store, job, keys)
    if state is State.WAITING:
        await settled(store, holding, parked(holding.claim, reason="signal"))
    elif state is State.SUCCEEDED:
        await settled(store, holding, settlement(holding.claim, State.SUCCEEDED))
    elif state is State.FAILED:
        await settled(store, holding, failed(holding.claim))
    elif state is State.CANCELED:
        await settled(store, holding, canceled(holding.claim))
    return job.id
