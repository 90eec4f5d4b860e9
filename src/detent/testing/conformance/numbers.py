"""What `NumberStore` promises: numbers that others compare never go back."""

from detent.model.numbers import EPOCH
from detent.spi.leadership import Bid
from detent.spi.store import Store
from detent.testing.conformance.builders import HOUR, new_job
from detent.testing.conformance.leadership import ROLE, elected, somebody
from detent.testing.conformance.locks import acquired
from detent.testing.conformance.steps import claimed, enqueued, joined


class NumberConformance:
    """Fences, fences of locks, and terms, after a part of the history was lost."""

    async def test_fences_are_raised_above_what_was_lost(self, store: Store) -> None:
        """A node has seen a fence that the store has forgotten."""
        await enqueued(store, *(new_job() for _ in range(4)))
        node = await joined(store)
        (first,) = await claimed(store, node, limit=1)
        seen = first.fence + 2 * EPOCH
        await store.raise_numbers(seen)
        (second,) = await claimed(store, node, limit=1)
        assert second.fence > seen
        assert second.fence % EPOCH > first.fence % EPOCH, "the count goes on"
        await store.raise_numbers(seen)
        (third,) = await claimed(store, node, limit=1)
        assert third.fence == second.fence + 1, "what is high enough stays"

    async def test_fences_of_locks_are_raised_above_what_was_lost(self, store: Store) -> None:
        """A caller has seen a fence that the store has forgotten."""
        _, before = await acquired(store, "before")
        seen = before + 3 * EPOCH
        await store.raise_numbers(seen)
        _, after = await acquired(store, "after")
        assert after > seen
        await store.raise_numbers(seen)
        _, last = await acquired(store, "last")
        assert last == after + 1, "what is high enough stays"

    async def test_terms_are_raised_above_what_was_lost(self, store: Store) -> None:
        """A node has seen a term that the store has forgotten."""
        first, second = somebody(), somebody()
        term = await elected(store, first)
        seen = term.number + 100
        await store.raise_numbers(seen)
        (kept,) = await store.elect(first, [Bid(ROLE, term.number)], HOUR)
        assert (kept.term, kept.holder) == (term.number, first.id), "who leads goes on"
        await store.resign(first.id, [term])
        assert (await elected(store, second)).number == EPOCH + 2, "the count goes on"
        assert (await elected(store, second, "new")).number == EPOCH + 1
        assert (await elected(store, second)).number == EPOCH + 3
