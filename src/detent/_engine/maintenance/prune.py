"""Lets ended jobs go when their time is over, a page at a time, so that nobody notices.

A sweep walks over what has ended, from the oldest on, and begins anew after the interval: what
it stepped over may be due then. Between two pages the pruner rests at least as long as the page
took, and a page that took too long is followed by a smaller one.
"""

from collections import deque
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from functools import partial
from typing import Final

from detent._engine.service import Service
from detent.config import RetentionConfig
from detent.events import Bus, Pruned, StoreTrouble
from detent.model.retention import StateRules
from detent.model.state import State
from detent.spi.leadership import Term
from detent.spi.retention import Mark, PruneRequest, RetentionStore
from detent.spi.runtime import Runtime

FIRST_PAGE: Final = 100
# How long a page should take, in seconds.
AIM: Final = 0.025
SHORTEST_REST: Final = 0.005

Page = Callable[[], Awaitable[bool]]
"""Does one page of a kind of work; returns whether there are more."""


@dataclass(slots=True)
class Sweep:
    """What a sweep has done so far, and what is left of it."""

    pages: deque[Page]
    deleted: int = 0
    archived: int = 0
    expired_keys: int = 0
    dropped: int = 0
    seconds: float = 0.0
    after: Mark | None = None
    problem: str | None = None

    @property
    def did_something(self) -> bool:
        return any((self.deleted, self.archived, self.expired_keys, self.dropped))


class Pruner(Service):
    """Sweeps, and rests longer than it works."""

    name = "pruner"

    def __init__(
        self, runtime: Runtime, bus: Bus, store: RetentionStore, config: RetentionConfig
    ) -> None:
        super().__init__(runtime, bus)
        self._store = store
        self._rules = config.rules()
        self._archive_keep = config.archive_keep
        self._interval = config.interval.total_seconds()
        self._largest = config.page
        self._size = min(FIRST_PAGE, config.page)
        self._sweep: Sweep | None = None
        self.term: Callable[[], Term | None] | None = None
        """The term under which this node sweeps, if it leads; one node is enough for this."""
        self._under: Term | None = None

    async def run_once(self) -> float:
        """Do one page; a node that has just started lets some time pass first."""
        if self._sweep is None:
            self._sweep = self._new_sweep()
            return self.unasked(self._interval * self.runtime.uniform(0.0, 1.0))
        self._under = None if self.term is None else self.term()
        if self._under is None and self.term is not None:
            return self.unasked(self._interval * self.runtime.uniform(0.8, 1.0))
        sweep = self._sweep
        started = self.runtime.monotonic()
        more = await sweep.pages[0]()
        took = self.runtime.monotonic() - started
        sweep.seconds += took
        self._size = page_after(self._size, took, self._largest)
        if not more:
            sweep.pages.popleft()
            sweep.after = None
        if sweep.pages:
            return max(took * self.runtime.uniform(1.0, 1.5), SHORTEST_REST)
        self._sweep = self._new_sweep()
        pause = self._interval * self.runtime.uniform(0.8, 1.0)
        self._tell(sweep, pause)
        return pause

    def on_trouble(self, error: Exception) -> None:
        """Ask for less next time: it may have been too much for the store's patience."""
        self._size = max(self._size // 2, 1)

    def _new_sweep(self) -> Sweep:
        # Keys first: a job stays as long as its key does.
        pages: deque[Page] = deque([self._prune_keys])
        pages += [
            partial(self._prune_jobs, state, rules)
            for state, rules in self._rules.items()
            if rules.shortest is not None
        ]
        if self._archive_keep is not None:
            pages.append(self._prune_archive)
        return Sweep(pages)

    def _tell(self, sweep: Sweep, pause: float) -> None:
        if sweep.did_something:
            self.bus.emit(
                Pruned(
                    sweep.deleted, sweep.archived, sweep.expired_keys, sweep.dropped, sweep.seconds
                )
            )
        if sweep.problem is not None:
            self.bus.emit(StoreTrouble(self.name, sweep.problem, pause))

    async def _prune_keys(self) -> bool:
        size, sweep = self._size, self._going
        gone = await self._store.prune_keys(size, self._under)
        sweep.expired_keys += gone
        return gone >= size

    async def _prune_jobs(self, state: State, rules: StateRules) -> bool:
        sweep = self._going
        request = PruneRequest(state, rules, self._size, sweep.after, self._under)
        page = await self._store.prune_jobs(request)
        sweep.deleted += page.deleted
        sweep.archived += page.archived
        sweep.after = page.after
        sweep.problem = sweep.problem or page.problem
        if page.busy:
            # Another node sweeps. One is enough, and two would step on each other's toes.
            sweep.pages = deque([sweep.pages[0]])
            return False
        return page.after is not None

    async def _prune_archive(self) -> bool:
        assert self._archive_keep is not None
        size, sweep = self._size, self._going
        gone = await self._store.prune_archive(self._archive_keep, size, self._under)
        sweep.dropped += gone
        return gone >= size

    @property
    def _going(self) -> Sweep:
        assert self._sweep is not None
        return self._sweep


def page_after(size: int, took: float, largest: int) -> int:
    """Return the size of the page after one that took so long: at most twice, at least half."""
    share = max(AIM / max(took, AIM / 2), 0.5)
    return max(1, min(int(size * share), largest))
