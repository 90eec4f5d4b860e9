"""The suite that every store must pass: what the promises of `detent.spi.store` mean, as tests.

To check a store of your own, write a test module with one class and one fixture:

    class TestMyStore(StoreConformance):
        @pytest.fixture
        async def store(self) -> AsyncIterator[Store]:
            store = MyStore(...)      # empty, and of this test's own
            await store.open()
            yield store
            await store.close()

and run it with pytest, pytest-asyncio (`asyncio_mode = "auto"`) and hypothesis. A store that
keeps only some of the protocols subclasses the classes of those instead. What needs a
transaction of the caller's own is skipped unless the class overrides `caller_transaction`, and
`blocking_transaction` for drivers that block.

Jobs are due in the past or the far future, and leases and keys that are to have run out are given
no time to begin with. Only two tests of leases wait, for a second of the store's clock.
"""

import pytest

_MODULES = (
    "alerts",
    "blocking",
    "breakers",
    "claim",
    "context",
    "control",
    "enqueue",
    "families",
    "finish",
    "firing",
    "histories",
    "inspect",
    "keys",
    "lanes",
    "leadership",
    "limits",
    "locks",
    "nodes",
    "notifier",
    "numbers",
    "outbox",
    "overlap",
    "pages",
    "retention",
    "rescue",
    "schedules",
    "slots",
    "steps",
    "storms",
    "suspects",
    "turns",
)
# A failing assertion should show its values, as in a test of one's own.
pytest.register_assert_rewrite(*(f"{__name__}.{name}" for name in _MODULES))

from detent.testing.conformance.alerts import AlertConformance  # noqa: E402
from detent.testing.conformance.blocking import BlockingConformance  # noqa: E402
from detent.testing.conformance.breakers import BreakerConformance  # noqa: E402
from detent.testing.conformance.claim import ClaimConformance  # noqa: E402
from detent.testing.conformance.context import ContextConformance  # noqa: E402
from detent.testing.conformance.control import ControlConformance  # noqa: E402
from detent.testing.conformance.enqueue import EnqueueConformance  # noqa: E402
from detent.testing.conformance.families import FamilyConformance  # noqa: E402
from detent.testing.conformance.finish import FinishConformance  # noqa: E402
from detent.testing.conformance.firing import FiringConformance  # noqa: E402
from detent.testing.conformance.histories import HistoryConformance  # noqa: E402
from detent.testing.conformance.inspect import InspectConformance  # noqa: E402
from detent.testing.conformance.lanes import LaneConformance  # noqa: E402
from detent.testing.conformance.leadership import LeaderConformance  # noqa: E402
from detent.testing.conformance.limits import LimitConformance  # noqa: E402
from detent.testing.conformance.locks import LockConformance  # noqa: E402
from detent.testing.conformance.nodes import NodeConformance  # noqa: E402
from detent.testing.conformance.notifier import NotifierConformance  # noqa: E402
from detent.testing.conformance.numbers import NumberConformance  # noqa: E402
from detent.testing.conformance.ordered import OrderedConformance  # noqa: E402
from detent.testing.conformance.outbox import OutboxConformance  # noqa: E402
from detent.testing.conformance.overlap import OverlapConformance  # noqa: E402
from detent.testing.conformance.rescue import RescueConformance  # noqa: E402
from detent.testing.conformance.retention import RetentionConformance  # noqa: E402
from detent.testing.conformance.schedules import ScheduleConformance  # noqa: E402
from detent.testing.conformance.storms import StormConformance  # noqa: E402
from detent.testing.conformance.suspects import SuspectConformance  # noqa: E402
from detent.testing.conformance.turns import TurnConformance  # noqa: E402

__all__ = [
    "AlertConformance",
    "BlockingConformance",
    "BreakerConformance",
    "ClaimConformance",
    "ContextConformance",
    "ControlConformance",
    "EnqueueConformance",
    "FamilyConformance",
    "FinishConformance",
    "FiringConformance",
    "HistoryConformance",
    "InspectConformance",
    "LaneConformance",
    "LeaderConformance",
    "LimitConformance",
    "LockConformance",
    "NodeConformance",
    "NotifierConformance",
    "NumberConformance",
    "OrderedConformance",
    "OutboxConformance",
    "OverlapConformance",
    "RescueConformance",
    "RetentionConformance",
    "ScheduleConformance",
    "StoreConformance",
    "StormConformance",
    "SuspectConformance",
    "TurnConformance",
]


class StoreConformance(
    EnqueueConformance,
    BlockingConformance,
    ClaimConformance,
    LaneConformance,
    FamilyConformance,
    FinishConformance,
    NodeConformance,
    RescueConformance,
    SuspectConformance,
    ContextConformance,
    ControlConformance,
    InspectConformance,
    RetentionConformance,
    LeaderConformance,
    LimitConformance,
    OrderedConformance,
    TurnConformance,
    LockConformance,
    NumberConformance,
    BreakerConformance,
    OutboxConformance,
    AlertConformance,
    ScheduleConformance,
    FiringConformance,
    OverlapConformance,
    HistoryConformance,
    StormConformance,
):
    """All of it."""
