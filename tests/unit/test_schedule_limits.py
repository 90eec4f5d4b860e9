"""If these fail, the jobs of a schedule pass by limits that are younger than the schedule."""

import asyncio
from datetime import timedelta
from typing import Any

import pytest

from detent import App
from detent.config import Config, EncryptionConfig
from detent.events import ScheduleFired
from detent.model.job import JobFilter
from detent.testing.simulation.stage import Stage
from detent.testing.virtual import START, in_virtual_time

MINUTE = timedelta(minutes=1)
SECRETS = Config(encryption=EncryptionConfig(enabled=True, keys={"k1": b"1" * 32}))


def work_of(app: App, **limits: Any) -> None:
    async def work(customer: str, size: int = 1) -> None:
        await asyncio.sleep(1)

    app.task(name="work", **limits)(work)


async def lanes(stage: Stage) -> set[str]:
    return {each.new.lane for each in stage.tables.job.values()}


@pytest.mark.parametrize("config", [Config(), SECRETS], ids=["plain", "encrypted"])
@in_virtual_time
async def test_a_limit_that_is_declared_later_holds_for_older_schedules(config: Config) -> None:
    stage = Stage(config)
    work_of(stage.app)
    await stage.app.schedules.create("old", MINUTE, "work", args=["ada"], needs="gpu")
    later = stage.new_app()
    work_of(later, concurrency=1, concurrency_key=lambda customer: customer)
    async with stage.node(later, capabilities=("gpu",)):
        await stage.until(lambda: stage.told(ScheduleFired), limit=120)
        by_hand = await later.schedules.trigger_now("old")
        await by_hand.result(60)
        await later.schedules.backfill("old", START - 2 * MINUTE, START)
    assert await lanes(stage) == {"default+gpu~task:work#ada"}


@in_virtual_time
async def test_a_limit_that_is_gone_holds_nobody_back() -> None:
    stage = Stage()
    work_of(stage.app, resource="smtp")
    await stage.app.limits.set("resource:smtp", concurrency=1)
    await stage.app.schedules.create("old", MINUTE, "work", args=["ada"])
    later = stage.new_app()
    work_of(later)
    async with stage.node(later):
        await stage.until(lambda: stage.told(ScheduleFired), limit=120)
        await (await later.schedules.trigger_now("old")).result(60)
    assert await lanes(stage) == {"default"}


@in_virtual_time
async def test_arguments_that_no_longer_fit_are_fired_and_fail_there() -> None:
    stage = Stage()
    work_of(stage.app)
    await stage.app.schedules.create("old", MINUTE, "work", args=["ada"])
    later = stage.new_app()

    @later.task(name="work", concurrency=1, concurrency_key=lambda number: number)
    async def work(number: int) -> None: ...

    async with stage.node(later):
        await stage.until(lambda: stage.told(ScheduleFired), limit=120)
        await stage.until(lambda: not stage.tables.running, limit=60)
    (job,) = await stage.store.list_jobs(JobFilter(), 10)
    assert job.task == "work"
