"""If these fail, threads that begin together get a store, a client or a pool each."""

import asyncio
import os
import threading
from collections.abc import Callable
from typing import Any

import pytest

from detent import App
from detent import app as app_module
from detent.lazy import FirstUse, PerLoop
from detent.stores.memory import MemoryStore

THREADS = 16

PARTS: dict[str, Callable[[App], Any]] = {
    "store": lambda app: app.store,
    "jobs": lambda app: app.jobs,
    "client": lambda app: app.client,
    "locks": lambda app: app.locks,
    "leaders": lambda app: app.leaders,
    "alerts": lambda app: app.alerts,
    "rate_limiter": lambda app: app.rate_limiter(),
}


def from_threads(work: Callable[[], Any]) -> list[Any]:
    """Return what threads that begin together get."""
    together = threading.Barrier(THREADS)
    got: list[Any] = []

    def run() -> None:
        together.wait()
        got.append(work())

    running = [threading.Thread(target=run) for _ in range(THREADS)]
    for thread in running:
        thread.start()
    for thread in running:
        thread.join()
    assert len(got) == THREADS
    return got


@pytest.mark.parametrize("name", PARTS)
def test_each_part_of_an_app_is_made_once(name: str) -> None:
    app = App("memory://")
    got = from_threads(lambda: PARTS[name](app))
    assert all(part is got[0] for part in got)


def test_a_store_that_takes_long_to_make_is_made_once(monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[MemoryStore] = []
    others = threading.Event()

    def slowly(_config: Any, notifier: Any) -> Any:
        made.append(MemoryStore())
        # Long enough for every other thread to find that there is no store yet.
        others.wait(0.2)
        return made[-1], notifier

    monkeypatch.setattr(app_module, "open_store", slowly)
    app = App("memory://")
    assert all(store is made[0] for store in from_threads(lambda: app.store))
    assert len(made) == 1


def test_each_loop_has_one_part_of_its_own() -> None:
    parts = PerLoop(object)

    async def twice() -> tuple[object, object]:
        first = parts.here()
        await asyncio.sleep(0)
        return first, parts.here()

    got = from_threads(lambda: asyncio.run(twice()))
    assert all(first is second for first, second in got)
    assert len({id(first): first for first, _ in got}) == THREADS


def test_a_part_that_was_taken_is_made_anew() -> None:
    parts: PerLoop[list[int]] = PerLoop(list)

    async def use() -> None:
        assert parts.take() is None
        parts.here().append(1)
        assert parts.take() == [1]
        assert parts.here() == []

    asyncio.run(use())


@pytest.mark.filterwarnings("ignore:This process:DeprecationWarning")
def test_a_child_finds_a_lock_that_another_thread_held_free() -> None:
    first_use = FirstUse()
    held, done = threading.Event(), threading.Event()

    def hold() -> None:
        with first_use.lock:
            held.set()
            done.wait(10)

    thread = threading.Thread(target=hold)
    thread.start()
    held.wait(10)
    child = os.fork()
    if child == 0:
        os._exit(0 if first_use.lock.acquire(timeout=5) else 1)
    _, status = os.waitpid(child, 0)
    done.set()
    thread.join()
    assert status == 0
