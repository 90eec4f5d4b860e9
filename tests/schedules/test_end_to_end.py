"""If these fail, a schedule that code declares does not fire on a real database as it should."""

import asyncio
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from detent import App, JobContext
from detent.config import Config
from detent.databases import migrate_store
from detent.events import ScheduleDeclared
from detent.model.schedule import Overlap, PlannedSlot, ScheduleInfo, SlotState
from detent.triggers import Interval

SECOND = timedelta(seconds=1)
PATIENCE = 60.0


@pytest.fixture
async def sqlite_url(tmp_path: Path) -> str:
    """The URL of a file of this test's own, with the tables."""
    url = f"sqlite:///{tmp_path / 'jobs.db'}"
    await migrate_store(Config.load(url, environ={}))
    return url


@pytest.fixture(params=["sqlite", "postgres"])
def url(request: pytest.FixtureRequest) -> str:
    found: str = request.getfixturevalue(f"{request.param}_url")
    return found


class Seen:
    """The slots for which a task ran, and a way to wait for some of them."""

    def __init__(self, wanted: int) -> None:
        self.slots: list[datetime] = []
        self._wanted = wanted
        self._enough = asyncio.Event()

    def add(self, ctx: JobContext) -> None:
        assert ctx.schedule == "tick"
        assert ctx.slot is not None
        self.slots.append(ctx.slot)
        if len(self.slots) >= self._wanted:
            self._enough.set()

    async def enough(self) -> None:
        async with asyncio.timeout(PATIENCE):
            await self._enough.wait()


def make_app(url: str, seen: Seen, trigger: Any = SECOND, **settings: Any) -> App:
    app = App(config=Config.load(url, environ={}))

    @app.schedule(trigger, name="tick", **settings)
    async def tick(ctx: JobContext, word: str = "tick") -> str:
        seen.add(ctx)
        return word

    return app


async def test_each_slot_gets_one_job_on_whichever_node(url: str) -> None:
    seen = Seen(3)
    apps = [make_app(url, seen, kwargs={"word": "tock"}) for _ in range(2)]
    async with apps[0], apps[1], apps[0].node(name="a"), apps[1].node(name="b"):
        await seen.enough()
        await apps[0].schedules.pause("tick")
        history = await apps[0].schedules.history("tick")
        jobs = [slot.job for slot in history if slot.job is not None]
        words = await asyncio.gather(*(apps[0].jobs.result(job, PATIENCE) for job in jobs))
    assert set(words) == {"tock"}
    assert len(seen.slots) == len(set(seen.slots)) == len(history) == len(jobs)
    assert {slot.slot for slot in history} == set(seen.slots)
    assert all(slot.microsecond == 0 for slot in seen.slots)


async def _restarted(
    url: str, work: Callable[[App], Any] | None = None, trigger: Any = SECOND, **settings: Any
) -> tuple[ScheduleInfo, list[ScheduleDeclared]]:
    """Start a node of some code, do something, and return how its schedule stands in the end."""
    app = make_app(url, Seen(1), trigger, **settings)
    told: list[ScheduleDeclared] = []
    app.on(ScheduleDeclared, told.append)
    # One that fires nothing, so that only code and operators change anything.
    async with app, app.node(roles=["worker"]):
        if work is not None:
            await work(app)
        return await app.schedules.get("tick"), told


async def test_code_and_operators_do_not_undo_each_others_changes(url: str) -> None:
    far = Interval(timedelta(days=1000), datetime(2100, 1, 1, tzinfo=UTC))
    first, told = await _restarted(url, trigger=far, overlap="skip", jitter=5)
    assert [event.created for event in told] == [True]
    assert first.next_fire == datetime(2100, 1, 1, tzinfo=UTC)

    async def edit(app: App) -> None:
        await app.schedules.update("tick", "0 0 1 1 *", timeout=3)

    edited, _ = await _restarted(url, edit, far, overlap="skip", jitter=5)
    assert edited.edited == ("timeout", "trigger")
    assert edited.next_fire != first.next_fire
    newer, told = await _restarted(url, trigger=SECOND, overlap="queue", jitter=9)
    assert [(event.created, event.kept) for event in told] == [(False, ("timeout", "trigger"))]
    assert (newer.next_fire, newer.schedule.overlap) == (edited.next_fire, Overlap.QUEUE)
    assert newer.schedule.jitter == timedelta(seconds=9)
    assert newer.schedule.firing.options == edited.schedule.firing.options

    async def reset(app: App) -> None:
        await app.schedules.reset("tick")

    back, _ = await _restarted(url, reset, far, overlap="queue", jitter=9)
    assert (back.edited, back.next_fire) == ((), first.next_fire)
    unchanged, told = await _restarted(url, trigger=far, overlap="queue", jitter=9)
    assert told == []
    assert unchanged.next_fire == back.next_fire


async def test_slots_that_were_left_out_can_be_made_up_for(url: str) -> None:
    far = Interval(timedelta(days=1), datetime(2020, 1, 1, tzinfo=UTC))
    days = [datetime(2026, 1, day, tzinfo=UTC) for day in (1, 2, 3)]
    skipped = [PlannedSlot(day, SlotState.SKIPPED_MISFIRE, None) for day in days[1:]]
    seen = Seen(3)
    app = make_app(url, seen, far, misfire="skip")
    async with app, app.node():
        await app.store.fire_slots("tick", Overlap.ALLOW, skipped)
        fired = await app.schedules.backfill("tick", days[0], days[2] + SECOND)
        await seen.enough()
        again = await app.schedules.backfill("tick", days[0], days[2] + SECOND)
        history = await app.schedules.history("tick")
    assert [slot.slot for slot in fired] == sorted(seen.slots) == days
    assert again == []
    assert {slot.job for slot in history} == {slot.job for slot in fired}
    assert {(slot.state, slot.manual) for slot in history} == {(SlotState.FIRED, True)}


async def test_an_operator_edits_while_the_schedule_fires(url: str) -> None:
    seen = Seen(4)
    app = make_app(url, seen)
    async with app, app.node():
        for number in range(20):
            await app.schedules.update("tick", description=f"edit {number}", jitter=0)
        await seen.enough()
        info = await app.schedules.get("tick")
    assert (info.schedule.description, info.edited) == ("edit 19", ("description", "jitter"))
    assert info.runs >= 3
    assert len(seen.slots) == len(set(seen.slots))


async def test_a_schedule_that_moves_to_another_queue_leaves_its_turns_there(url: str) -> None:
    seen = Seen(2)
    far = Interval(timedelta(days=1000), datetime(2100, 1, 1, tzinfo=UTC))
    app = make_app(url, seen, far, queue="fair", kwargs={"word": "ada"})
    app.queue("fair", fair_key="word")
    lanes = []
    async with app, app.node(queues={"fair": 1, "plain": 1}):
        for queue in ("fair", "plain", "fair"):
            await app.schedules.update("tick", queue=queue)
            (info,) = await app.store.get_schedules(["tick"])
            lanes.append(info.schedule.firing.lane)
            job = await app.schedules.trigger_now("tick")
            assert await job.result(PATIENCE) == "ada"
            assert (await app.jobs.get(job.id)).queue == queue
    assert lanes == ["fair~fair:fair#ada", "plain", "fair~fair:fair#ada"]
