"""Takes back jobs that another node parked because it did not know their task."""

from collections.abc import Callable
from typing import Final

from detent._engine.service import Service
from detent.events import Bus
from detent.spi.nodes import NodeStore
from detent.spi.runtime import Runtime
from detent.tasks import Registry

# A node that joins wakes such jobs by itself; this is for those that were parked later.
INTERVAL: Final = 30.0
PAGE: Final = 1_000


class Adopter(Service):
    """Looks for such jobs now and then: in a rolling deploy old nodes may claim new tasks."""

    name = "adopter"

    def __init__(
        self,
        runtime: Runtime,
        bus: Bus,
        store: NodeStore,
        registry: Registry,
        on_adopted: Callable[[], None],
    ) -> None:
        super().__init__(runtime, bus)
        self._store = store
        self._registry = registry
        self._on_adopted = on_adopted

    async def run_once(self) -> float:
        """Adopt a page."""
        tasks = [task.name for task in self._registry]
        if tasks and await self._store.adopt_jobs(tasks, PAGE):
            self._on_adopted()
        return INTERVAL * self.runtime.uniform(0.8, 1.0)
