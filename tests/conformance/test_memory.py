"""The executable specification keeps its own promises."""

from collections.abc import Callable
from contextlib import AbstractAsyncContextManager

import pytest

from detent.spi.store import Store
from detent.stores.memory import MemoryConnection, MemoryStore
from detent.testing.conformance import StoreConformance


class TestMemory(StoreConformance):
    @pytest.fixture
    def memory(self) -> MemoryStore:
        return MemoryStore()

    @pytest.fixture
    def store(self, memory: MemoryStore) -> Store:
        return memory

    @pytest.fixture
    def caller_transaction(
        self, memory: MemoryStore
    ) -> Callable[[], AbstractAsyncContextManager[MemoryConnection]]:
        return memory.begin
