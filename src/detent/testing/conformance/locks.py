"""What `LockStore` promises: one holder at a time, and fences that only grow."""

import asyncio
from datetime import timedelta
from uuid import UUID

import pytest

from detent.spi.store import Store
from detent.testing.conformance.builders import HOUR, MINUTE, new_id
from detent.testing.conformance.leadership import elected, somebody
from detent.testing.conformance.steps import now_of

NO_TIME = timedelta(0)
NAME = "import of größen: 42"


async def acquired(
    store: Store, name: str = NAME, ttl: timedelta = HOUR, holder: UUID | None = None
) -> tuple[UUID, int]:
    """Acquire a lock that is free; return its holder and its fence."""
    holder = holder or new_id()
    answer = await store.acquire_lock(name, holder, "host-1:4711", ttl)
    assert answer.fence is not None, "the lock was not free"
    return holder, answer.fence


async def is_free(store: Store, name: str = NAME) -> bool:
    """Tell whether somebody could have a lock, and leave it as it was."""
    holder = new_id()
    answer = await store.acquire_lock(name, holder, "host-2:1", HOUR)
    await store.release_lock(name, holder)
    return answer.fence is not None


class LockConformance:
    """Acquiring, renewing, releasing, losing."""

    async def test_one_at_a_time_holds_a_lock(self, store: Store) -> None:
        await acquired(store, ttl=MINUTE)
        answer = await store.acquire_lock(NAME, new_id(), "host-2:1", HOUR)
        assert answer.fence is None
        assert answer.free_in == pytest.approx(60, abs=5)

    async def test_locks_of_different_names_are_independent(self, store: Store) -> None:
        await acquired(store, "a")
        await acquired(store, "A")
        assert [lock.name for lock in sorted(await store.locks())] == ["A", "a"]

    async def test_what_is_held_is_listed(self, store: Store) -> None:
        before = await now_of(store)
        holder, fence = await acquired(store, ttl=MINUTE)
        await acquired(store, "over", NO_TIME)
        (found,) = await store.locks()
        assert found[:4] == (NAME, fence, holder, "host-1:4711")
        assert before <= found.acquired_at <= await now_of(store)
        assert found.expires_at - found.acquired_at == pytest.approx(
            MINUTE, abs=timedelta(seconds=5)
        )

    async def test_a_released_lock_is_free(self, store: Store) -> None:
        holder, _ = await acquired(store)
        assert await store.release_lock(NAME, holder)
        assert await store.locks() == []
        assert not await store.release_lock(NAME, holder), "once"
        await acquired(store)

    async def test_the_fence_grows_with_every_acquisition(self, store: Store) -> None:
        fences = []
        for _ in range(5):
            holder, fence = await acquired(store)
            fences.append(fence)
            await store.release_lock(NAME, holder)
        assert fences == sorted(set(fences))

    async def test_asking_twice_after_a_lost_reply_gives_the_same(self, store: Store) -> None:
        holder, fence = await acquired(store, ttl=MINUTE)
        assert await acquired(store, holder=holder, ttl=HOUR) == (holder, fence)
        (found,) = await store.locks()
        assert found.expires_at > await now_of(store) + 2 * MINUTE

    async def test_a_lock_whose_time_is_over_goes_to_another(self, store: Store) -> None:
        old, first = await acquired(store, ttl=NO_TIME)
        new, second = await acquired(store)
        assert second > first
        assert not await store.renew_lock(NAME, old, HOUR)
        assert not await store.release_lock(NAME, old)
        (found,) = await store.locks()
        assert (found.holder, found.fence) == (new, second)

    async def test_a_lock_that_nobody_took_can_still_be_renewed(self, store: Store) -> None:
        holder, fence = await acquired(store, ttl=NO_TIME)
        assert await store.locks() == []
        assert await store.renew_lock(NAME, holder, HOUR)
        (found,) = await store.locks()
        assert (found.holder, found.fence) == (holder, fence)
        assert not await is_free(store)

    async def test_a_renewal_never_acquires(self, store: Store) -> None:
        assert not await store.renew_lock(NAME, new_id(), HOUR)
        assert await is_free(store)

    async def test_a_lock_can_be_taken_away(self, store: Store) -> None:
        holder, fence = await acquired(store)
        taken = await store.force_release(NAME)
        assert taken is not None
        assert (taken.holder, taken.fence) == (holder, fence)
        assert not await store.renew_lock(NAME, holder, HOUR)
        assert await store.force_release(NAME) is None
        _, later = await acquired(store)
        assert later > fence

    async def test_a_lock_that_is_over_was_not_taken_from_anybody(self, store: Store) -> None:
        await acquired(store, ttl=NO_TIME)
        assert await store.force_release(NAME) is None

    async def test_of_many_one_gets_it(self, store: Store) -> None:
        last = 0
        for _ in range(5):
            holders = [new_id() for _ in range(8)]
            answers = await asyncio.gather(
                *(store.acquire_lock(NAME, each, "host:1", HOUR) for each in holders)
            )
            fences = [answer.fence for answer in answers if answer.fence is not None]
            assert len(fences) == 1
            assert fences[0] > last
            last = fences[0]
            released = [await store.release_lock(NAME, each) for each in holders]
            assert released.count(True) == 1

    async def test_fences_only_grow_in_the_order_of_acquisition(self, store: Store) -> None:
        """Each notes its fence while it holds the lock, so the notes are in order."""
        noted: list[int] = []

        async def contend() -> None:
            for _ in range(5):
                holder = new_id()
                while True:
                    answer = await store.acquire_lock(NAME, holder, "host:1", HOUR)
                    if answer.fence is not None:
                        break
                    await asyncio.sleep(0)
                noted.append(answer.fence)
                assert await store.release_lock(NAME, holder)

        await asyncio.gather(*(contend() for _ in range(6)))
        assert len(noted) == 30
        assert noted == sorted(set(noted))

    async def test_locks_that_were_not_given_back_are_forgotten(self, store: Store) -> None:
        _, fence = await acquired(store, ttl=NO_TIME)
        await acquired(store, "also over", NO_TIME)
        await acquired(store, "held")
        term = await elected(store, somebody())
        assert await store.forget_locks(term, HOUR, 10) == 0, "not yet"
        assert await store.forget_locks(term, NO_TIME, 1) == 1
        assert await store.forget_locks(term, NO_TIME, 10) == 1
        assert [lock.name for lock in await store.locks()] == ["held"]
        _, later = await acquired(store)
        assert later > fence, "forgotten, but not begun anew"

    async def test_only_a_leader_forgets_them(self, store: Store) -> None:
        holder, _ = await acquired(store, ttl=NO_TIME)
        old = await elected(store, somebody(), lease=NO_TIME)
        await elected(store, somebody())
        assert await store.forget_locks(old, NO_TIME, 10) == 0
        assert await store.renew_lock(NAME, holder, HOUR)
