"""The executable specification keeps its own promises."""

import asyncio
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from datetime import UTC, datetime

import pytest

from detent.spi.store import Store
from detent.stores.memory import MemoryConnection, MemoryStore
from detent.testing.conformance import (
    ClaimConformance,
    ContextConformance,
    ControlConformance,
    EnqueueConformance,
    FinishConformance,
    FiringConformance,
    InspectConformance,
    LeaderConformance,
    LockConformance,
    NodeConformance,
    OverlapConformance,
    RetentionConformance,
    ScheduleConformance,
    StoreConformance,
)

NOON = datetime(2030, 1, 1, 12, tzinfo=UTC)


class Memory:
    """A memory store, and its own kind of transaction."""

    clock: Callable[[], datetime] | None = None

    @pytest.fixture
    def memory(self) -> MemoryStore:
        # Others run before and after every step, so that races are races here too.
        return MemoryStore(self.clock, latency=lambda: asyncio.sleep(0))

    @pytest.fixture
    def store(self, memory: MemoryStore) -> Store:
        return memory

    @pytest.fixture
    def caller_transaction(
        self, memory: MemoryStore
    ) -> Callable[[], AbstractAsyncContextManager[MemoryConnection]]:
        return memory.begin


class TestMemory(Memory, StoreConformance):
    """All promises."""


class TestMemoryAtNoon(
    Memory,
    EnqueueConformance,
    ClaimConformance,
    FinishConformance,
    NodeConformance,
    ContextConformance,
    ControlConformance,
    InspectConformance,
    RetentionConformance,
    LeaderConformance,
    LockConformance,
    ScheduleConformance,
    FiringConformance,
    OverlapConformance,
):
    """Everything happens at one moment: no promise rests on time that passes meanwhile."""

    clock = staticmethod(lambda: NOON)
