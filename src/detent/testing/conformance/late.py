"""Every write that a worker can make, by one whose claim was lost: a store must refuse them all."""

from collections.abc import Awaitable, Mapping
from datetime import timedelta
from typing import Final
from uuid import UUID

from detent.errors import ClaimLost
from detent.model.job import Claim, LogLine, Progress, queue_of
from detent.model.state import State
from detent.spi.store import PendingCompletion, Store
from detent.testing.conformance.builders import (
    canceled,
    claim_request,
    completion,
    failed,
    lane_scan,
    parked,
    released,
    retried,
    settlement,
)

LATE: Final = "written too late"
HOUR: Final = timedelta(hours=1)


async def accepted_late_writes(store: Store, node: UUID, claim: Claim) -> list[str]:
    """Try everything in the name of a lost claim; return what was accepted, which must be nothing.

    What others do with the job meanwhile is theirs: only the traces of these writes are looked
    for.
    """
    accepted = []
    for name, write in _writes(store, node, claim).items():
        if await write:
            accepted.append(name)
    (info,) = await store.get_jobs([claim.id])
    if info.progress_message == LATE:
        accepted.append("save_progress")
    if any(entry.message == LATE for entry in await store.log_of(claim.id, 1000)):
        accepted.append("append_log")
    return accepted


def _writes(store: Store, node: UUID, claim: Claim) -> Mapping[str, Awaitable[object]]:
    ends = {
        "success": settlement(claim, State.SUCCEEDED),
        "failure": failed(claim),
        "retry": retried(claim),
        "release": released(claim),
        "park": parked(claim),
        "cancel": canceled(claim),
    }
    progress = Progress(claim.id, claim.fence, 0.5, LATE)
    line = LogLine(claim.id, claim.fence, claim.attempt, "info", LATE)
    scan = lane_scan(queue_of(claim.lane), room=1)
    return {
        "finish_jobs": store.finish_jobs(node, [completion(claim)]),
        **{f"settle_jobs: {name}": store.settle_jobs(node, [end]) for name, end in ends.items()},
        **{
            f"finish_hooked: {name}": store.finish_hooked(node, [end]) for name, end in ends.items()
        },
        "release_claims": store.release_claims(node, [(claim.id, claim.fence)]),
        "transaction": _transaction(store, node, claim),
        # These two answer nothing, whatever becomes of them.
        "save_progress": store.save_progress(node, [progress]),
        "append_log": store.append_log(node, [line]),
        "beat": _beat(store, node),
        "claim_jobs": store.claim_jobs(claim_request(node, scan, limit=1)),
    }


async def _transaction(store: Store, node: UUID, claim: Claim) -> bool:
    try:
        async with store.transaction(node, claim, PendingCompletion(queue_of(claim.lane))):
            return True
    except ClaimLost:
        return False


async def _beat(store: Store, node: UUID) -> bool:
    return (await store.beat(node, HOUR)).alive
