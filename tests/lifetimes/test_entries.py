"""If these fail, a request that uses an app takes locks and providers from jobs that run."""

import asyncio
from collections.abc import AsyncIterator, Callable

import pytest

from detent import App, Depends
from detent.errors import LockLost, StoreUnavailable
from detent.events import LockWasLost
from detent.locks import HeldLock

NewApp = Callable[[], App]
PATIENCE = 30.0


class Scene:
    """A job that holds a lock and a provider for as long as the test wants."""

    def __init__(self, app: App) -> None:
        self.begun, self.goes_on = asyncio.Event(), asyncio.Event()
        self.closed = False
        self.lock: HeldLock | None = None

        async def resource() -> AsyncIterator[str]:
            yield "open"
            self.closed = True

        @app.task(name="write")
        async def write(value: str = Depends(resource, scope="app")) -> bool:
            async with app.lock("books") as self.lock:
                self.begun.set()
                await self.goes_on.wait()
                self.lock.check()
            return not self.closed

        self.write = write


async def test_a_second_entry_takes_nothing_from_a_job_that_runs(new_app: NewApp) -> None:
    """A request handler, a health check: `async with app` while jobs run on the same loop."""
    app, rival = new_app(), new_app()
    scene = Scene(app)
    async with rival, asyncio.timeout(PATIENCE):
        async with app.node():
            job = await scene.write.enqueue()
            await scene.begun.wait()
            async with app:
                pass
            async with app:
                await app.close()
            taken, closed = await rival.lock("books").try_acquire(), scene.closed
            scene.goes_on.set()
            assert (taken, closed) == (None, False)
            assert await job.result()
        # The program has left; its node was the last.
        assert scene.closed


async def test_the_last_exit_closes(new_app: NewApp) -> None:
    app = new_app()
    async with asyncio.timeout(PATIENCE):
        async with app:
            async with app:
                held = await app.lock("books").try_acquire()
                assert held is not None
            held.check()
        assert held.lost.is_set()
        async with app:
            assert await app.locks.list() == []


async def test_an_entry_that_fails_takes_nothing_either(new_app: NewApp) -> None:
    app = new_app()
    async with asyncio.timeout(PATIENCE), app, app.lock("books") as lock:
        opened, app.store.open = app.store.open, refuse  # type: ignore[method-assign]
        with pytest.raises(StoreUnavailable):
            await app.__aenter__()
        app.store.open = opened  # type: ignore[method-assign]
        lock.check()


async def refuse() -> None:
    raise StoreUnavailable("the store is away")


async def test_a_lock_that_something_else_released_is_lost_and_says_so(new_app: NewApp) -> None:
    app = new_app()
    told: list[LockWasLost] = []
    app.bus.subscribe(LockWasLost, told.append)

    async def close() -> None:
        async with app.lock("books") as lock:
            async with app:
                lock.check()
            assert lock.lost.is_set()
            assert not lock.is_held

    async def release() -> None:
        async with app.lock("books") as lock:
            assert await lock.release()
            assert lock.lost.is_set()

    async with asyncio.timeout(PATIENCE):
        with pytest.raises(LockLost, match="app was closed"):
            await close()
        with pytest.raises(LockLost, match="before its block ended"):
            await release()
        assert [event.name for event in told] == ["books", "books"]
        await app.close()


async def test_a_lock_released_by_its_own_block_is_not_lost(new_app: NewApp) -> None:
    app = new_app()
    told: list[LockWasLost] = []
    app.bus.subscribe(LockWasLost, told.append)
    async with asyncio.timeout(PATIENCE), app:
        async with app.lock("books") as lock:
            pass
        assert not lock.lost.is_set()
        held = await app.lock("books").try_acquire()
        assert held is not None
        assert await held.release()
        assert not held.lost.is_set()
    assert not told


async def test_a_leadership_that_something_else_released_is_lost(new_app: NewApp) -> None:
    app = new_app()
    async with asyncio.timeout(PATIENCE):
        leadership = await app.leaders.try_acquire("boss")
        assert leadership is not None
        async with app:
            leadership.check()
        assert leadership.lost.is_set()
        await app.close()
