"""If these fail, two programs do at once what only one of them may."""

import asyncio
import threading
from datetime import timedelta
from typing import Any

import pytest

from detent.app import App
from detent.config import Config
from detent.errors import ConfigError, LockLost, LockTaken, StoreUnavailable, WrongThread
from detent.events import HistoryLost, LockWasLost
from detent.model.numbers import EPOCH
from detent.notifiers.none import NoNotifier
from detent.stores.memory import MemoryNotifier, MemoryStore
from detent.testing.simulation.stage import Stage
from detent.testing.virtual import in_virtual_time

TTL = 30.0


@in_virtual_time
async def test_a_lock_is_held_as_long_as_its_block() -> None:
    stage = Stage()
    other = stage.new_app()
    async with stage.app.lock("import", ttl=timedelta(seconds=TTL)) as lock:
        assert (lock.name, lock.is_held) == ("import", True)
        assert await other.lock("import").try_acquire() is None
        await asyncio.sleep(10 * TTL)
        lock.check()
        (found,) = await other.locks.list()
        assert (found.name, found.fence) == ("import", lock.fence)
        assert found.owner
    assert not lock.is_held
    assert await other.locks.list() == []
    async with other.lock("import") as later:
        assert later.fence > lock.fence


@in_virtual_time
async def test_a_lock_is_renewed_after_each_third_of_its_time() -> None:
    stage = Stage()
    async with stage.app.lock("import", ttl=TTL):
        await asyncio.sleep(10 * TTL)
    assert 30 <= stage.line.count("renew_lock") <= 34


@in_virtual_time
@pytest.mark.parametrize("wakeups", [True, False], ids=["told", "untold"])
async def test_who_waits_gets_it_when_it_is_released(wakeups: bool) -> None:
    stage = Stage(wakeups=wakeups)
    other = stage.new_app()
    held = await stage.app.lock("import", ttl=TTL).try_acquire()
    assert held is not None
    waiting = asyncio.create_task(other.lock("import").acquire())
    await asyncio.sleep(100)
    assert not waiting.done()
    released = stage.now
    await held.release()
    lock = await waiting
    assert stage.now - released <= (0.01 if wakeups else 0.6)
    assert lock.fence > held.fence
    await lock.release()


@in_virtual_time
async def test_who_waits_where_no_wake_ups_arrive_asks_more_often() -> None:
    """A pooler, `[wakeup] url = "none"`: there is a notifier, and it says that it is silent."""
    stage = Stage()
    deaf = App(config=stage.config, store=stage.store, notifier=NoNotifier(), runtime=stage.runtime)
    for _ in range(20):
        held = await stage.app.lock("import", ttl=TTL).try_acquire()
        assert held is not None
        waiting = asyncio.create_task(deaf.lock("import").acquire())
        await asyncio.sleep(7)
        released = stage.now
        await held.release()
        lock = await waiting
        assert stage.now - released <= 0.6
        await lock.release()
    await deaf.close()


@in_virtual_time
async def test_who_waits_gets_it_soon_after_its_holder_died() -> None:
    stage = Stage()
    held = await stage.app.lock("import", ttl=TTL).try_acquire()
    assert held is not None
    await held._holding.end()  # its process is gone
    lock = await stage.new_app().lock("import").acquire()
    assert TTL <= stage.now <= TTL + 2.5
    await lock.release()


@in_virtual_time
async def test_nobody_waits_longer_than_he_wants() -> None:
    stage = Stage()
    async with stage.app.lock("import", ttl=TTL):
        for wait in (10, 0):
            began = stage.now
            with pytest.raises(LockTaken, match=f"waited {wait} s") as refused:
                async with stage.new_app().lock("import", wait=wait):
                    pass
            assert stage.now - began == pytest.approx(wait, abs=0.01)
            assert refused.value.name == "import"


@in_virtual_time
async def test_of_many_who_wait_each_gets_it_once_with_growing_fences() -> None:
    stage = Stage()
    fences: list[int] = []
    inside: list[int] = []

    async def contend(app: App) -> None:
        for _ in range(5):
            async with app.lock("import", ttl=TTL) as lock:
                inside.append(1)
                assert len(inside) == 1, "two at once"
                fences.append(lock.fence)
                await asyncio.sleep(0.1)
                inside.pop()

    await asyncio.gather(*(contend(stage.new_app()) for _ in range(6)))
    assert len(fences) == 30
    assert fences == sorted(set(fences))
    assert stage.now < 30 * 0.1 + 5, "each was told, nobody had to poll for long"


# Losing it


@in_virtual_time
async def test_a_lock_that_cannot_be_renewed_is_lost_before_others_can_have_it() -> None:
    stage = Stage()
    with pytest.raises(LockLost, match="could not be renewed") as lost:  # noqa: PT012  at its end
        async with stage.app.lock("import", ttl=TTL) as lock:
            stage.line.lose("renew_lock", times=None)
            await lock.lost.wait()
            assert 2 / 3 * TTL - 0.1 <= stage.now <= 2 / 3 * TTL + 0.1
            assert await stage.new_app().lock("import").try_acquire() is None, "not yet"
            assert not lock.is_held
            with pytest.raises(LockLost):
                lock.check()
    assert (lost.value.name, lost.value.fence) == ("import", lock.fence)
    (told,) = stage.told(LockWasLost)
    assert (told.name, told.fence) == ("import", lock.fence)


@in_virtual_time
async def test_a_short_trouble_of_the_store_costs_no_lock() -> None:
    stage = Stage()
    async with stage.app.lock("import", ttl=TTL):
        stage.line.lose("renew_lock", times=3)
        await asyncio.sleep(10 * TTL)
    assert stage.told(LockWasLost) == []


@in_virtual_time
async def test_a_lock_can_be_taken_away_and_its_holder_hears_of_it() -> None:
    stage = Stage()
    other = stage.new_app()
    with pytest.raises(LockLost, match="taken away"):  # noqa: PT012  it is the end that raises
        async with stage.app.lock("import", ttl=TTL) as lock:
            waiting = asyncio.create_task(other.lock("import").acquire())
            await asyncio.sleep(1)
            taken = await other.locks.force_release("import")
            assert taken is not None
            assert taken.fence == lock.fence
            later = await waiting
            assert stage.now < 1.1, "those who wait are told"
            async with asyncio.timeout(TTL / 3 + 1):
                await lock.lost.wait()
    assert later.is_held, "the old holder's release is not that of the new one"
    await later.release()
    assert await other.locks.force_release("import") is None


@in_virtual_time
async def test_what_the_block_raised_is_more_important() -> None:
    stage = Stage()
    with pytest.raises(KeyError):  # noqa: PT012  it is the end that raises
        async with stage.app.lock("import", ttl=TTL):
            await stage.app.locks.force_release("import")
            raise KeyError("mine")


@in_virtual_time
async def test_a_store_that_cannot_be_reached_at_the_end_is_no_error() -> None:
    stage = Stage()
    async with stage.app.lock("import", ttl=TTL):
        stage.line.lose("release_lock")
    await asyncio.sleep(TTL)
    assert await stage.app.lock("import").try_acquire() is not None


@in_virtual_time
async def test_a_lock_that_was_got_without_knowing_is_given_back() -> None:
    stage = Stage()
    stage.line.lose("acquire_lock", reply=True)
    with pytest.raises(StoreUnavailable):
        await stage.app.lock("import", ttl=TTL).try_acquire()
    assert await stage.app.locks.list() == []
    held = stage.line.hold("acquire_lock", reply=True)
    waiting = asyncio.create_task(stage.app.lock("import", ttl=TTL).acquire())
    await asyncio.sleep(1)
    assert len(await stage.app.locks.list()) == 1
    waiting.cancel()
    held.set()
    await asyncio.wait([waiting])
    assert waiting.cancelled()
    assert await stage.app.locks.list() == []


@in_virtual_time
async def test_what_was_given_back_is_never_held_again_under_the_same_name() -> None:
    stage = Stage()
    late = stage.line.hold("acquire_lock", reply=True)
    waiting = asyncio.create_task(stage.app.lock("import", ttl=3).acquire())
    await stage.until(lambda: "import" in stage.tables.locks)
    first = stage.tables.locks["import"].holder
    await asyncio.sleep(2.5)
    late.set()
    held = await waiting
    # The order to give it back may still be on its way, and must not hit what is held now.
    assert held.holder != first
    assert stage.tables.locks["import"].holder == held.holder
    await held.release()


@in_virtual_time
async def test_one_lock_object_may_be_used_by_several_tasks() -> None:
    stage = Stage()
    lock = stage.app.lock("import", ttl=TTL)
    inside: list[int] = []

    async def work() -> None:
        async with lock as held:
            inside.append(held.fence)
            await asyncio.sleep(1)
            held.check()

    await asyncio.gather(*(work() for _ in range(3)))
    assert inside == sorted(set(inside))
    with pytest.raises(ConfigError, match="would wait for itself"):
        async with lock, lock:
            pass


@in_virtual_time
async def test_closing_an_app_releases_what_it_holds() -> None:
    stage = Stage()
    held = await stage.app.lock("import").try_acquire()
    assert held is not None
    await stage.app.close()
    assert not held.is_held
    assert await stage.new_app().locks.list() == []


@pytest.mark.parametrize(
    "given, said",
    [
        ({"name": ""}, r"^lock '': must be 1 to 255 printable"),
        ({"name": "a\0b"}, r"^lock 'a\\x00b'"),
        ({"name": "x" * 256}, r"must be 1 to 255"),
        ({"name": 3}, r"^lock 3: must be"),
        ({"ttl": 0}, r"ttl=0\): must be 100 ms to 24 hours"),
        ({"ttl": timedelta(days=2)}, r"must be 100 ms to 24 hours"),
        ({"ttl": "30 x"}, r"ttl='30 x'\): must be a duration"),
        ({"ttl": float("nan")}, r"must be a duration"),
        ({"ttl": True}, r"must be a duration"),
        ({"wait": -1}, r"wait=-1\): must not be negative"),
        ({"wait": "long"}, r"must be a duration"),
    ],
)
def test_what_cannot_be_a_lock_is_refused_in_one_line(given: dict[str, Any], said: str) -> None:
    app = App(config=Config(), store=MemoryStore())
    with pytest.raises(ConfigError, match=said) as refused:
        app.lock(**{"name": "import", **given})
    assert "\n" not in str(refused.value)


# Those that nobody gave back


@in_virtual_time
async def test_locks_of_the_dead_are_forgotten_after_a_day_and_seldom_looked_for() -> None:
    stage = Stage()
    for name, days in (("old", 2), ("fresh", 0)):
        held = await stage.app.lock(name, ttl=TTL).try_acquire()
        assert held is not None
        await held._holding.end()  # its process is gone
        row = stage.tables.locks[name]
        over = row.acquired_at - timedelta(days=days)
        stage.tables.locks[name] = row._replace(expires_at=over)
    async with stage.node(), stage.node(stage.new_app()):
        await stage.until(lambda: "old" not in stage.tables.locks, 120)
        await asyncio.sleep(6000)
        assert list(stage.tables.locks) == ["fresh"]
    assert stage.line.count("forget_locks") <= 3, "by one node, once an hour"


# From blocking code, in real time


def test_blocking_code_has_locks_too() -> None:
    app = App(config=Config(), store=MemoryStore(), notifier=MemoryNotifier())
    entered, leave = threading.Event(), threading.Event()
    fences: list[int] = []

    def work() -> None:
        with app.lock("import", ttl=10) as lock:
            fences.append(lock.fence)
            entered.set()
            assert leave.wait(10)
            lock.check()

    thread = threading.Thread(target=work)
    thread.start()
    assert entered.wait(10)
    assert app.lock("import").try_acquire_sync() is None
    with pytest.raises(LockTaken), app.lock("import", wait=0.05):
        pass
    leave.set()
    with app.lock("import", wait=10) as lock:
        fences.append(lock.fence)
    thread.join(10)
    held = app.lock("import").try_acquire_sync()
    assert held is not None
    assert held.release_sync()
    assert fences == sorted(set(fences))


async def test_a_blocking_lock_on_a_running_loop_is_refused() -> None:
    app = App(config=Config(), store=MemoryStore())
    with pytest.raises(WrongThread), app.lock("import"):
        pass


# A store that has lost a part of its history


@in_virtual_time
@pytest.mark.parametrize("epoch", [0, EPOCH], ids=["unnoticed", "noticed"])
async def test_a_fence_below_one_that_was_seen_is_told_once_and_never_given(epoch: int) -> None:
    """`epoch`: whether the store has found out by itself that it lost something."""
    stage = Stage()
    for _ in range(4):
        async with stage.app.lock("import"):
            pass
    async with stage.app.lock("import") as before:
        pass
    assert stage.told(HistoryLost) == []
    stage.tables.lock_fence = epoch + 1
    async with stage.app.lock("import") as after:
        assert after.fence > before.fence, "else whoever saw the higher one refuses this"
        (found,) = await stage.app.locks.list()
        assert (found.name, found.fence) == ("import", after.fence)
    (told,) = stage.told(HistoryLost)
    assert f"fence {before.fence} of import is followed by {epoch + 2}" in told.evidence
    async with stage.app.lock("import") as last:
        assert last.fence > after.fence
    assert len(stage.told(HistoryLost)) == 1


@in_virtual_time
async def test_a_term_below_one_that_was_seen_is_told_once_and_never_given() -> None:
    stage = Stage()
    before = await _led(stage)
    for _ in range(4):
        before = await _led(stage)
    stage.tables.leaders["mine"] = stage.tables.leaders["mine"]._replace(term=1)
    assert await _led(stage) > before
    (told,) = stage.told(HistoryLost)
    assert f"term {before} of mine is followed by 2" in told.evidence


async def _led(stage: Stage) -> int:
    """Lead a role for a moment; return the term."""
    leadership = await stage.app.leaders.try_acquire("mine")
    assert leadership is not None
    await leadership.release()
    return leadership.term


@in_virtual_time
async def test_an_answer_that_was_overtaken_is_no_loss_of_history() -> None:
    """A lock is taken away while its holder has not heard yet that it has it."""
    stage = Stage()
    slow = stage.line.hold("acquire_lock", reply=True)
    first = asyncio.create_task(stage.app.lock("import").acquire())
    await asyncio.sleep(1)
    assert await stage.app.locks.force_release("import") is not None
    async with stage.app.lock("import"):
        slow.set()
        await first
    with pytest.raises(LockLost):
        await (await first).leave(None)
    assert stage.told(HistoryLost) == []
