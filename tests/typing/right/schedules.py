"""What is scheduled stays the task that it is, and everything that can be said has its type."""

from datetime import UTC, datetime, timedelta
from typing import reveal_type

from detent import App, JobContext, Priority, Retry
from detent.calendars import Holidays, Weekly
from detent.model.schedule import ScheduleInfo
from detent.triggers import Cron, Interval, Once, catch_up

app = App("memory://")


@app.schedule("0 9 * * MON-FRI", timezone="Europe/Berlin", misfire="fire_once", overlap="skip")
async def report() -> str:
    return "done"


@app.schedule(timedelta(minutes=5), name="often", kwargs={"depth": 1}, misfire=catch_up(3))
@app.schedule(
    Cron("0 3 * * *", "Asia/Tokyo"),
    name="nightly",
    group="reports",
    args=[9],
    calendars=["holidays", "weekend"],
    misfire_threshold="10m",
    jitter=timedelta(seconds=30),
    start=datetime(2026, 1, 1, tzinfo=UTC),
    end=None,
    max_runs=100,
    priority=Priority.HIGH,
    tags=["deep"],
    retry=Retry(max_attempts=2),
    timeout=30,
    queue="web",
    needs=["disk"],
    params={"by": "clock"},
    description="All pages",
)
@app.task(queue="web")
def crawl(ctx: JobContext, depth: int) -> int:
    return depth


reveal_type(report)  # Declared[[], str, [], Coroutine[Any, Any, str]]
reveal_type(crawl)  # Declared[[depth: int], int, [JobContext, depth: int], int]


async def by_hand() -> ScheduleInfo:
    await report.enqueue()
    await crawl.enqueue(depth=2)
    await app.calendars.save("weekend", Weekly(base="holidays"))
    await app.calendars.save("holidays", Holidays([datetime(2026, 12, 25, tzinfo=UTC).date()]))
    await app.schedules.create("once", Once(datetime(2026, 12, 24, tzinfo=UTC)), report)
    await app.schedules.create("hourly", Interval(timedelta(hours=1)), "crawl", args=[1])
    await app.schedules.update("hourly", "@daily", timezone="UTC", overlap="queue", jitter="1m")
    await app.schedules.update("hourly", end=None, timeout=None, revision=3)
    job = await app.schedules.trigger_now("hourly")
    await job.result(timeout=5)
    await app.schedules.delete("once", cancel_jobs=True)
    return await app.schedules.get("hourly")
