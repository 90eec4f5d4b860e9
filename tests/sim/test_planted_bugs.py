"""If these fail, the simulation has gone blind: it passes although a guarantee is broken.

Each bug is one that somebody could make in an afternoon. Each has to be found, by the rule that
is meant to find it, within a few seeds.
"""

from collections.abc import Callable, Sequence
from typing import Any
from uuid import UUID

import pytest

from detent._engine.dispatch import Dispatcher, Slots
from detent._engine.finish import Finisher
from detent._engine.reconcile import Reconciler
from detent.model.job import Claim
from detent.stores.memory import claim, enqueue, finish, transaction
from detent.stores.memory.tables import Running, Tables
from detent.testing.simulation import Plan, simulate

SEEDS = range(20)
STORM = Plan(weather="storm")
Patch = pytest.MonkeyPatch


def ends_without_a_fence(patch: Patch) -> None:
    """The store accepts the end of a job from anybody who ever held it."""

    def any_claim(tables: Tables, node: UUID, job_id: UUID, fence: int) -> Running | None:
        return tables.running.get(job_id)

    patch.setattr(finish, "valid_claim", any_claim)


def fence_without_a_node(patch: Patch) -> None:
    """A fenced node writes down what it had, in its new name."""
    patch.setattr(Finisher, "abandon", lambda self: None)


def held_twice(patch: Patch) -> None:
    """The dispatcher starts a job that it is still executing."""

    class Forgetful(dict[Any, Any]):
        def __contains__(self, key: object) -> bool:
            return False

    original = Dispatcher.__init__

    def forgetful(self: Dispatcher, *args: Any, **kwargs: Any) -> None:
        original(self, *args, **kwargs)
        self.held, self._executing = Forgetful(), Forgetful()

    patch.setattr(Dispatcher, "__init__", forgetful)
    patch.setattr(Dispatcher, "_free", _free_once(Dispatcher._free))


def _free_once(free: Callable[..., None]) -> Callable[..., None]:
    def freed(self: Dispatcher, attempt: Any) -> None:
        self._executing.setdefault(attempt.claim.id, attempt)
        free(self, attempt)

    return freed


def claimed_twice(patch: Patch) -> None:
    """A claimed job stays where the next claim finds it."""
    take = claim._take

    def copied(tables: Tables, now: Any, place: Any, request: Any) -> Claim:
        taken = take(tables, now, place, request)
        tables.ready[place.id] = place
        return taken

    patch.setattr(claim, "_take", copied)
    patch.setattr("detent.testing.simulation.run.PATIENCE", 20.0)


def slots_ignored(patch: Patch) -> None:
    """A queue has room for one more than it should."""
    original = Slots.__init__
    patch.setattr(Slots, "__init__", lambda self, limit: original(self, limit + 1))


def never_reconciled(patch: Patch) -> None:
    """Claims whose reply was lost are left alone."""

    async def nothing(self: Reconciler) -> float:
        return 60.0

    patch.setattr(Reconciler, "run_once", nothing)
    patch.setattr("detent.testing.simulation.run.PATIENCE", 100.0)


def enqueues_lost(patch: Patch) -> None:
    """Of the jobs that share a commit the last one is dropped."""
    original = enqueue.enqueue_jobs

    def careless(tables: Tables, now: Any, jobs: Sequence[Any]) -> None:
        original(tables, now, jobs[:-1] if len(jobs) > 1 else jobs)

    careless.__name__ = "enqueue_jobs"
    patch.setattr(enqueue, "enqueue_jobs", careless)


def effects_without_a_claim(patch: Patch) -> None:
    """A transaction commits its effects whether or not it may."""
    patch.setattr(transaction, "finish_hooked", lambda *args: [True])


def tries_uncounted(patch: Patch) -> None:
    """A failed try is forgotten, so that there is always another one."""
    original = finish._go_back

    def forgotten(tables: Tables, now: Any, running: Running, said: Any) -> None:
        original(tables, now, running, said._replace(charged=False))

    patch.setattr(finish, "_go_back", forgotten)
    patch.setattr("detent.testing.simulation.run.PATIENCE", 20.0)


@pytest.mark.parametrize(
    "plant, rule",
    [
        (ends_without_a_fence, "an end is accepted from the valid claim only"),
        (fence_without_a_node, "a node speaks only of its own claims"),
        (held_twice, "a process runs a job once at a time"),
        (claimed_twice, "a job has one place"),
        (slots_ignored, "never more than its slots"),
        (never_reconciled, "every job comes to an end"),
        (enqueues_lost, "a committed enqueue is never lost"),
        (effects_without_a_claim, "effect and completion are one"),
        (tries_uncounted, "a failed try counts once"),
    ],
    ids=lambda value: getattr(value, "__name__", None),
)
def test_a_planted_bug_is_found(
    plant: Callable[[Patch], None], rule: str, monkeypatch: Patch
) -> None:
    plant(monkeypatch)
    for seed in SEEDS:
        broken = simulate(seed, STORM).broken
        if any(f"BROKEN: {rule}:" in line for line in broken):
            return
    pytest.fail(f"{len(SEEDS)} seeds and nobody noticed: {plant.__doc__}")
