"""What only the memory store has: its clock, a line that fails, effects, in-process wake-ups."""

import asyncio
import threading
from collections.abc import Coroutine, Sequence
from contextlib import suppress
from datetime import UTC, datetime
from typing import Any

import pytest

from detent.errors import ClaimLost, StoreUnavailable
from detent.model.state import State, Verb
from detent.spi.notifier import Hint, SignalHint, Wake
from detent.spi.store import Change, PendingCompletion
from detent.stores.memory import MemoryNotifier, MemoryStore
from detent.testing.conformance.builders import (
    HOUR,
    MINUTE,
    completion,
    failed,
    new_job,
    retried,
    unique,
)
from detent.testing.conformance.steps import (
    claimed,
    claimed_ids,
    enqueued,
    held,
    info,
    joined,
    now_of,
    place,
    place_within,
    state_of,
)

START = datetime(2030, 1, 1, tzinfo=UTC)


class Clock:
    """A clock that a test moves."""

    def __init__(self) -> None:
        self.now = START

    def __call__(self) -> datetime:
        return self.now


async def test_time_passes_only_by_the_clock_that_was_given() -> None:
    clock = Clock()
    store = MemoryStore(clock)
    assert await now_of(store) == START
    (job_id,) = await enqueued(store, new_job(delay=60.0))
    node = await joined(store, lease=HOUR)
    assert await claimed(store, node) == []
    clock.now += MINUTE
    assert await claimed_ids(store, node) == [job_id]
    clock.now += HOUR - MINUTE
    await enqueued(store)
    assert await claimed(store, node) == [], "its lease has run out"
    await store.beat(node, HOUR)
    assert len(await claimed(store, node)) == 1


class Line:
    """The way to the store, which a test may cut."""

    def __init__(self) -> None:
        self.passed = 0
        self.cut_at: int | None = None

    async def __call__(self) -> None:
        self.passed += 1
        if self.passed == self.cut_at:
            raise StoreUnavailable("the line is cut")


async def test_a_lost_request_changes_nothing_and_a_lost_reply_everything() -> None:
    line = Line()
    store = MemoryStore(latency=line)
    job = new_job()
    line.cut_at = 1
    with pytest.raises(StoreUnavailable):
        await store.enqueue_jobs([job])
    assert await store.get_jobs([job.id]) == []
    line.cut_at = line.passed + 2
    with pytest.raises(StoreUnavailable):
        await store.enqueue_jobs([job])
    assert await state_of(store, job.id) is State.PENDING


async def test_a_lost_reply_to_a_commit_is_a_commit() -> None:
    line = Line()
    store = MemoryStore(latency=line)
    node, claim = await held(store)
    transaction = store.transaction(node, claim, PendingCompletion("default"))
    await transaction.__aenter__()
    line.cut_at = line.passed + 2
    with pytest.raises(StoreUnavailable):
        await transaction.__aexit__(None, None, None)
    assert await state_of(store, claim.id) is State.SUCCEEDED


async def test_every_step_lets_others_run_before_and_after() -> None:
    line = Line()
    store = MemoryStore(latency=line)
    await store.nodes()
    assert line.passed == 2


# Effects


async def test_effects_happen_with_the_commit() -> None:
    store = MemoryStore()
    node, claim = await held(store)
    effects: list[str] = []
    async with store.transaction(node, claim, PendingCompletion("default")) as connection:
        connection.on_commit(lambda: effects.append("paid"))
        assert effects == []
    assert effects == ["paid"]


async def test_a_claim_that_is_lost_meanwhile_has_no_effects() -> None:
    store = MemoryStore()
    node, claim = await held(store)
    effects: list[str] = []
    job = new_job("other")
    transaction = store.transaction(node, claim, PendingCompletion("default"))
    connection = await transaction.__aenter__()
    connection.on_commit(lambda: effects.append("paid"))
    await store.enqueue_within(connection, [job], None)
    await store.release_claims(node, [(claim.id, claim.fence)])
    with pytest.raises(ClaimLost):
        await transaction.__aexit__(None, None, None)
    assert effects == []
    assert await store.get_jobs([job.id]) == []
    assert await state_of(store, claim.id) is State.PENDING


async def test_an_effect_that_fails_undoes_the_completion() -> None:
    store = MemoryStore()
    node, claim = await held(store)

    def effect() -> None:
        raise ZeroDivisionError

    transaction = store.transaction(node, claim, PendingCompletion("default"))
    connection = await transaction.__aenter__()
    connection.on_commit(effect)
    with pytest.raises(ZeroDivisionError):
        await transaction.__aexit__(None, None, None)
    assert await store.finish_jobs(node, [completion(claim)]) == [claim.id]


async def test_a_key_that_changes_hands_before_the_commit_is_noticed() -> None:
    store = MemoryStore()
    plain, keyed, rival = new_job(), new_job(), new_job()
    transaction = store.begin()
    connection = await transaction.__aenter__()
    await store.enqueue_within(connection, [plain], None)
    assert (await place_within(store, connection, keyed, unique("user-1"))).created
    assert (await place(store, rival, unique("user-1"))).created
    with pytest.raises(StoreUnavailable):
        await transaction.__aexit__(None, None, None)
    found = await store.get_jobs([plain.id, keyed.id, rival.id])
    assert [each.id for each in found] == [rival.id]


# Threads


def test_threads_with_their_own_loops_share_a_store() -> None:
    store = MemoryStore()
    given: list[object] = []

    async def work() -> None:
        node = await joined(store)
        for _ in range(20):
            await enqueued(store, *(new_job() for _ in range(5)))
            claims = await claimed(store, node, limit=5)
            given.extend(claim.id for claim in claims)
            await store.finish_jobs(node, [completion(claim) for claim in claims])

    threads = [threading.Thread(target=lambda: asyncio.run(work())) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(given) == len(set(given)) == 4 * 20 * 5


async def test_the_same_history_is_told_in_the_same_order() -> None:
    async def history() -> list[object]:
        clock = Clock()
        store = MemoryStore(clock)
        jobs = [new_job(priority=number % 5) for number in range(20)]
        await store.enqueue_jobs(jobs)
        claims = await claimed(store, await joined(store), limit=10)
        return [[job.id for job in jobs].index(claim.id) for claim in claims]

    assert await history() == await history()


async def test_a_closed_store_remembers() -> None:
    store = MemoryStore()
    await store.open()
    (job_id,) = await enqueued(store)
    await store.close()
    await store.open()
    assert (await info(store, job_id)).id == job_id


# Wake-ups

MAIL = Hint("mail")
OTHER = SignalHint(new_job().id)


class Listener:
    """Somebody who listens, and what he heard."""

    def __init__(self, notifier: MemoryNotifier) -> None:
        self.heard: list[Sequence[Wake]] = []
        self._task = asyncio.ensure_future(notifier.listen(self.heard.append))

    async def stop(self) -> None:
        self._task.cancel()
        with suppress(asyncio.CancelledError):
            await self._task


async def settle() -> None:
    """Let everything that is scheduled on this loop run."""
    for _ in range(5):
        await asyncio.sleep(0)


async def test_every_listener_hears_every_wake_up_after_an_empty_one() -> None:
    notifier = MemoryNotifier()
    one, two = Listener(notifier), Listener(notifier)
    await settle()
    notifier.publish([MAIL, OTHER])
    await notifier.flush()
    for listener in (one, two):
        assert listener.heard == [(), (MAIL, OTHER)]
        await listener.stop()


async def test_wake_ups_are_coalesced() -> None:
    notifier = MemoryNotifier()
    listener = Listener(notifier)
    await settle()
    for wake in (MAIL, OTHER, MAIL, MAIL):
        notifier.publish([wake])
    notifier.publish([])
    await notifier.flush()
    notifier.publish([MAIL])
    await notifier.flush()
    assert listener.heard == [(), (MAIL, OTHER), (MAIL,)]
    await listener.stop()


async def test_nobody_listens_after_he_stopped() -> None:
    notifier = MemoryNotifier()
    listener = Listener(notifier)
    await settle()
    await listener.stop()
    notifier.publish([MAIL])
    await notifier.flush()
    assert listener.heard == [()]


def test_wake_ups_reach_other_threads_and_survive_closed_loops() -> None:
    notifier = MemoryNotifier()
    heard: list[Sequence[Wake]] = []
    listening, woken = threading.Event(), threading.Event()

    def receive(wakes: Sequence[Wake]) -> None:
        heard.append(wakes)
        (woken if wakes else listening).set()

    async def listen() -> None:
        task = asyncio.ensure_future(notifier.listen(receive))
        await asyncio.to_thread(woken.wait, 10)
        task.cancel()

    thread = threading.Thread(target=lambda: asyncio.run(listen()))
    thread.start()
    assert listening.wait(10)
    notifier.publish([MAIL])
    thread.join(10)
    assert heard == [(), (MAIL,)]
    notifier.publish([MAIL])  # never raises


def test_a_listener_whose_loop_was_closed_is_passed_over() -> None:
    notifier = MemoryNotifier()

    async def listen() -> Coroutine[Any, Any, None]:
        listening = notifier.listen(lambda wakes: None)
        listening.send(None)  # until it waits
        return listening

    abandoned = asyncio.run(listen())
    notifier.publish([MAIL])  # never raises
    abandoned.close()


async def test_what_comes_back_is_told_at_once_and_what_is_enqueued_by_its_client() -> None:
    """Otherwise it would wait for a poll: for ten seconds, or thirty on a node that was idle."""
    notifier = MemoryNotifier()
    store = MemoryStore(notifier=notifier)
    listener = Listener(notifier)
    await settle()
    listener.heard.clear()

    async def told() -> list[Wake]:
        await settle()
        wakes = [wake for batch in listener.heard for wake in batch]
        listener.heard.clear()
        return wakes

    node = await joined(store, lease=HOUR)
    (job_id,) = await enqueued(store, new_job(queue="mail"))
    assert await told() == []
    await store.control_job(Verb.PAUSE, job_id, Change())
    await store.control_job(Verb.RESUME, job_id, Change())
    (wake,) = await told()
    assert isinstance(wake, Hint)
    assert (wake.lane, wake.id) == ("mail", job_id)
    (claim,) = await claimed(store, node, queue="mail")
    await store.control_job(Verb.CANCEL, job_id, Change(reason="no longer wanted"))
    assert await told() == [SignalHint(node)]
    await store.settle_jobs(node, [retried(claim, delay=0.0)])
    assert [wake.id for wake in await told() if isinstance(wake, Hint)] == [job_id]
    (claim,) = await claimed(store, node, queue="mail")
    await store.settle_jobs(node, [failed(claim)])
    assert await told() == []
    await store.control_job(Verb.RETRY, job_id, Change())
    assert [wake.id for wake in await told() if isinstance(wake, Hint)] == [job_id]
    await store.resume_queue("mail")
    assert await told() == [MAIL]
    await listener.stop()
