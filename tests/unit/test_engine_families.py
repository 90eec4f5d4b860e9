"""If these fail, a limit for each of many keys costs by the key, or jobs of some keys wait."""

import asyncio
import contextlib
from collections import Counter, defaultdict
from datetime import timedelta

import pytest

from detent import Priority, Retry
from detent._engine.families import FEW
from detent.model.gates import any_of, family_of, gates_of, told_lanes, whole
from detent.spi.limits import NOT_OFFERED, FamilyAnswer, FamilyRequest
from detent.testing.simulation.stage import Stage
from detent.testing.virtual import in_virtual_time

KEYS = 1_500
CLAIMS = ("claim_gated", "claim_family", "gated_lanes")


def calls(stage: Stage) -> int:
    return sum(stage.line.count(statement) for statement in CLAIMS)


@in_virtual_time
async def test_many_keys_are_claimed_together() -> None:
    stage = Stage()

    @stage.app.task(concurrency=1, concurrency_key=lambda key: key)
    async def work(key: int) -> None: ...

    await stage.app.enqueue_many([work.bind(key) for key in range(KEYS)])
    async with stage.node(queues={"default": KEYS}):
        await stage.until(lambda: len(stage.tables.outcome) == KEYS)
        assert calls(stage) < 20


@in_virtual_time
async def test_what_comes_to_many_keys_is_claimed_together() -> None:
    stage = Stage()

    @stage.app.task(concurrency=1, concurrency_key=lambda key: key)
    async def work(key: int) -> None: ...

    async with stage.node(queues={"default": KEYS}):
        await asyncio.sleep(1)
        before = calls(stage)
        await stage.app.enqueue_many([work.bind(key) for key in range(KEYS)])
        await stage.until(lambda: len(stage.tables.outcome) == KEYS)
        assert calls(stage) - before < 20


@in_virtual_time
async def test_each_key_runs_one_at_a_time_and_in_order() -> None:
    stage, running = Stage(), Counter[int]()
    begun: dict[int, list[int]] = defaultdict(list)

    @stage.app.task(concurrency=1, concurrency_key=lambda key, number: key)
    async def work(key: int, number: int) -> None:
        running[key] += 1
        assert running[key] == 1
        begun[key].append(number)
        await asyncio.sleep(0.05)
        running[key] -= 1

    keys = 3 * FEW
    await stage.app.enqueue_many(
        [work.bind(key, number) for number in range(4) for key in range(keys)]
    )
    async with stage.node(queues={"default": 100}):
        began = stage.now
        ended = await stage.until(lambda: len(stage.tables.outcome) == 4 * keys)
    assert ended - began < 2.0
    assert stage.line.count("claim_family") > 0
    assert all(numbers == [0, 1, 2, 3] for numbers in begun.values())


@in_virtual_time
async def test_a_retry_keeps_the_place_of_its_key() -> None:
    stage = Stage()
    begun: dict[int, list[int]] = defaultdict(list)

    @stage.app.task(
        concurrency=1,
        concurrency_key=lambda key, number: key,
        retry=Retry(max_attempts=3, delay=timedelta(seconds=0.2)),
    )
    async def work(key: int, number: int) -> None:
        begun[key].append(number)
        if number == 0 and len(begun[key]) == 1:
            raise ValueError

    keys = 2 * FEW
    await stage.app.enqueue_many(
        [work.bind(key, number) for number in range(3) for key in range(keys)]
    )
    async with stage.node(queues={"default": 50}):
        await stage.until(lambda: len(stage.tables.outcome) == 3 * keys)
    assert stage.line.count("claim_family") > 0
    assert all(numbers == [0, 0, 1, 2] for numbers in begun.values())


@in_virtual_time
async def test_a_key_with_many_blocked_jobs_stands_in_nobody_s_way() -> None:
    stage, release = Stage(), asyncio.Event()

    @stage.app.task(concurrency=1, concurrency_key=lambda key: key)
    async def work(key: int) -> None:
        if key == 0:
            await release.wait()

    crowd, others = 2_000, 300
    await stage.app.enqueue_many([work.bind(0) for _ in range(crowd)])
    await stage.app.enqueue_many([work.bind(key) for key in range(1, others + 1)])
    async with stage.node(queues={"default": 50}):
        began = stage.now
        ended = await stage.until(lambda: len(stage.tables.outcome) == others)
        assert ended - began < 5.0
        release.set()
        await stage.until(lambda: len(stage.tables.outcome) == others + crowd)


@in_virtual_time
async def test_a_store_may_claim_lane_by_lane_only(monkeypatch: pytest.MonkeyPatch) -> None:
    stage, asked = Stage(), list[FamilyRequest]()

    async def refuse(request: FamilyRequest) -> FamilyAnswer:
        asked.append(request)
        return NOT_OFFERED

    monkeypatch.setattr(stage.store, "claim_family", refuse)

    @stage.app.task(concurrency=1, concurrency_key=lambda key: key)
    async def work(key: int) -> None: ...

    await stage.app.enqueue_many([work.bind(key) for key in range(KEYS)])
    async with stage.node(queues={"default": KEYS}):
        began = stage.now
        ended = await stage.until(lambda: len(stage.tables.outcome) == KEYS)
    assert ended - began < 3.0
    assert len(asked) == 1


@in_virtual_time
@pytest.mark.parametrize("is_keyed", [False, True])
async def test_the_most_urgent_of_a_queue_is_next_whatever_it_stands_in(is_keyed: bool) -> None:
    stage, ran = Stage(), list[str]()

    @stage.app.task(concurrency=1, concurrency_key=lambda key: key)
    async def keyed(key: int) -> None:
        ran.append("keyed")
        await asyncio.sleep(0.1)

    @stage.app.task
    async def plain(key: int) -> None:
        ran.append("plain")
        await asyncio.sleep(0.1)

    low, high = (plain, keyed) if is_keyed else (keyed, plain)
    lower, higher = low.options(priority=Priority.LOW), high.options(priority=Priority.HIGH)
    keys = 2 * FEW
    await stage.app.enqueue_many([lower.bind(key) for key in range(keys)])
    await stage.app.enqueue_many([higher.bind(key) for key in range(keys)])
    async with stage.node(queues={"default": 1}):
        await stage.until(lambda: len(ran) > keys // 2)
    assert set(ran[: keys // 2]) == {"keyed" if is_keyed else "plain"}
    assert stage.line.count("claim_family") > 0


@in_virtual_time
async def test_a_family_and_plain_jobs_of_one_priority_take_turns() -> None:
    stage, ran = Stage(), Counter[str]()

    @stage.app.task(concurrency=1, concurrency_key=lambda key: key)
    async def keyed(key: int) -> None:
        ran["keyed"] += 1
        await asyncio.sleep(0.1)

    @stage.app.task
    async def plain(key: int) -> None:
        ran["plain"] += 1
        await asyncio.sleep(0.1)

    await stage.app.enqueue_many([keyed.bind(key) for key in range(1_000)])
    await stage.app.enqueue_many([plain.bind(key) for key in range(1_000)])
    async with stage.node(queues={"default": 10}):
        await stage.until(lambda: sum(ran.values()) > 600)
    assert min(ran.values()) > 0, ran


def test_many_lanes_of_a_family_are_told_as_one() -> None:
    few: dict[str, int | None] = {f"mail~task:send#{key}": 2 for key in range(3)}
    assert told_lanes(few) == few
    many: dict[str, int | None] = {f"mail~task:send#{key}": key % 4 for key in range(100)}
    other: dict[str, int | None] = {"mail": None, "mail~fair:mail#1": 3}
    assert told_lanes(many | other) == {"mail~task:send#": 3} | other


@pytest.mark.parametrize(
    "lane, family",
    [
        ("mail~task:send#42", "mail~task:send"),
        ("mail+gpu~task:send#", "mail+gpu~task:send"),
        ("mail~task:send", None),
        ("mail", None),
        ("mail~fair:mail#42", None),
        ("mail~resource:smtp~task:send#42", None),
        ("mail~task:send#42~fair:mail#1", None),
        ("mail~task:send#42+!", None),
    ],
)
def test_which_lanes_are_of_a_family(lane: str, family: str | None) -> None:
    assert family_of(lane) == family
    if family is not None:
        assert family_of(any_of(family)) == family
        assert [gate.name for gate in gates_of(whole(family))] == ["task:send#*"]


@in_virtual_time
async def test_a_family_is_not_claimed_as_a_whole_while_a_call_is_stuck_in_it() -> None:
    stage, goes_on = Stage(), asyncio.Event()
    running: Counter[int] = Counter()
    most: Counter[int] = Counter()

    @stage.app.task(
        concurrency=1,
        concurrency_key=lambda key, number: key,
        timeout=1,
        retry=Retry(max_attempts=1),
    )
    async def work(key: int, number: int) -> None:
        running[key] += 1
        most[key] = max(most[key], running[key])
        while (key, number) == (0, 0) and not goes_on.is_set():
            with contextlib.suppress(asyncio.CancelledError):
                await goes_on.wait()
        running[key] -= 1

    keys = 3 * FEW
    async with stage.node(queues={"default": keys}):
        await work.enqueue(0, 0)
        await stage.until(lambda: len(stage.tables.outcome) == 1)
        assert running[0] == 1, "its job has ended without it"
        await stage.app.enqueue_many([work.bind(key, 1) for key in range(keys)])
        await stage.until(lambda: len(stage.tables.outcome) == keys)
        assert running[0] == 1
        goes_on.set()
        await stage.until(lambda: len(stage.tables.outcome) == keys + 1)
    assert most[0] == 1
