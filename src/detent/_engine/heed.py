"""Ends jobs that were asked to cancel when a try of theirs is over, instead of trying them again.

A node looks for requests once a second, so a short try can be over before its request is heard. The
next try can come as short, or hours later. So before ends are written with which jobs go back, one
look for all of them asks which were told to stop. First tries that succeed ask nothing.
"""

from collections.abc import Iterable
from typing import Any
from uuid import UUID

from detent._engine.attempt import Attempt
from detent._engine.backlog import EndBatch
from detent._engine.execute import tell_canceled
from detent.errors import StoreError, StoreUnavailable
from detent.model.job import Completion, Settlement
from detent.model.state import State
from detent.spi.store import ContextStore


async def heed_requests(store: ContextStore, node: UUID, batch: EndBatch[Any]) -> None:
    """Turn ends of jobs that go back, although they were asked to stop, into cancels.

    Raises `StoreUnavailable` when the store gives no answer: it would not take the ends either.
    """
    if batch.failures or not any(map(_goes_back, _ends(batch.ends))):
        # A batch that failed may have been written: what it says must not change.
        return
    try:
        signals = await store.signals_for(node)
    except StoreUnavailable:
        raise
    except StoreError:
        return  # the request outlives this try
    asked = {(each.id, each.fence): each.reason for each in signals if each.kind == "cancel"}
    if not asked:
        return
    for place, (end, attempt) in enumerate(batch.ends):
        if (end.id, end.fence) in asked and _goes_back(end):
            reason = asked[end.id, end.fence]
            batch.ends[place] = (
                end._replace(state=State.CANCELED, delay=None, reason=reason),
                attempt,
            )
            tell_canceled(attempt, reason)


def _ends(
    ends: Iterable[tuple[Completion | Settlement, Attempt]],
) -> Iterable[Completion | Settlement]:
    return (end for end, _ in ends)


def _goes_back(end: Completion | Settlement) -> bool:
    """Whether a try is over and another one is to follow; what is only released has not ended."""
    if not isinstance(end, Settlement) or end.state is not State.PENDING:
        return False
    return end.delay is not None
