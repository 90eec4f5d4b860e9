"""If these fail, a secret that `[redaction]` is to take out is stored or told all the same."""

import asyncio
import logging
from contextlib import suppress
from datetime import timedelta
from typing import Any

import pytest

from detent import App, BatchItem, JobCanceled, JobContext, JobFailed, Retry
from detent.alerts import LogAlert
from detent.config import Config, EncryptionConfig, RedactionConfig
from detent.errors import JobCanceled as Canceled
from detent.events import EventPutOff, JobWasCanceled
from detent.logs import attach
from detent.testing.simulation.stage import Stage
from detent.testing.virtual import in_virtual_time

LEAK = "cannot reach postgresql://ada:s3cret@db/shop with password=s3cret"
CLEAN = "cannot reach postgresql://ada:***@db/shop with password=***"
TWICE = Retry(max_attempts=2, delay=timedelta(seconds=1))


def declare(app: App) -> list[Any]:
    """Declare tasks that tell too much, each in another way."""

    @app.task(name="raises", retry=TWICE)
    async def raises() -> None:
        raise ConnectionError(LEAK)

    @app.task(name="writes", retry=TWICE)
    async def writes(ctx: JobContext) -> None:
        ctx.log.warning(LEAK)
        await ctx.progress(0.5, LEAK)
        await asyncio.sleep(5)

    @app.task(name="cancels", retry=TWICE)
    async def cancels(ctx: JobContext) -> None:
        raise JobCanceled(ctx.job_id, LEAK)

    @app.task(name="cancels_some", retry=TWICE, batch=5)
    async def cancels_some(items: list[BatchItem[int]]) -> None:
        items[0].fail(JobCanceled(items[0].ctx.job_id, LEAK))

    return [raises.bind(), writes.bind(), cancels.bind(), cancels_some.bind(1)]


async def play(stage: Stage) -> None:
    """Run them all, with sinks that do not take what they are offered."""

    def refuse(_event: object) -> None:
        raise ConnectionError(LEAK)

    stage.app.sink("refusing", refuse, max_attempts=1)
    stage.app.alerts.to(refuse, name="refusing")
    stage.app.alerts.to(LogAlert())
    calls = declare(stage.app)
    async with stage.node():
        jobs = [await stage.app.enqueue(call) for call in calls]
        await asyncio.sleep(3)
        stage.halfway = repr(stage.tables)  # type: ignore[attr-defined]
        for job in jobs:
            with suppress(JobFailed, Canceled):
                await job.result(60)
        await asyncio.sleep(30)


@in_virtual_time
async def test_nothing_that_is_stored_or_told_holds_what_the_rules_find(
    caplog: pytest.LogCaptureFixture,
) -> None:
    stage = Stage()
    with caplog.at_level(logging.DEBUG, "detent"):
        attach(stage.app.bus)
        await play(stage)
    stored = repr(stage.tables) + stage.halfway  # type: ignore[attr-defined]
    for where in (stored, repr(stage.events), caplog.text):
        assert "s3cret" not in where
        assert CLEAN in where
    assert {event.reason for event in stage.told(JobWasCanceled)} == {CLEAN}
    assert any(CLEAN in event.error for event in stage.told(EventPutOff))


@in_virtual_time
async def test_with_the_rules_switched_off_all_of_it_is_kept() -> None:
    stage = Stage(Config(redaction=RedactionConfig(secrets=False)))
    await play(stage)
    assert (repr(stage.tables) + stage.halfway).count("s3cret") >= 10  # type: ignore[attr-defined]


@in_virtual_time
async def test_the_words_with_which_an_encrypted_task_cancels_itself_are_not_kept() -> None:
    stage = Stage(Config(encryption=EncryptionConfig(enabled=True, keys={"k1": b"1" * 32})))

    @stage.app.task(name="pay")
    async def pay(ctx: JobContext, card: str) -> None:
        if card == "slow":
            await asyncio.sleep(60)
        raise JobCanceled(ctx.job_id, f"{card} was stolen")

    async with stage.node():
        job = await pay.enqueue("4111-1111")
        with pytest.raises(Canceled, match="<encrypted>"):
            await job.result(60)
        slow = await pay.enqueue("slow")
        await asyncio.sleep(1)
        await stage.app.jobs.cancel(slow.id, reason="a person may say why")
        with pytest.raises(Canceled, match="a person may say why"):
            await slow.result(60)
    assert "4111-1111" not in repr(stage.tables) + repr(stage.events)
