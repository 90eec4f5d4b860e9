"""What cannot be said about a schedule is refused where it stands."""

from datetime import timedelta

from detent import App
from detent.triggers import Cron, catch_up

app = App("memory://")


@app.schedule(5)  # error: seconds are no trigger
async def seconds() -> None: ...


@app.schedule("@daily", overlap="never")  # error: allow, skip, queue or replace
async def overlapping() -> None: ...


@app.schedule("@daily", misfire="later")  # error: skip, fire_once or catch_up(n)
async def missed() -> None: ...


@app.schedule("@daily", misfire=catch_up("many"))  # error: a number
async def many_missed() -> None: ...


@app.schedule("@daily", start="tomorrow")  # error: a datetime
async def starting() -> None: ...


@app.schedule("@daily", retry=3)  # error: a Retry(...)
async def retried() -> None: ...


@app.schedule("@daily", overlapp="skip")  # error: there is no such option
async def misspelled() -> None: ...


@app.schedule(Cron(timedelta(hours=1)))  # error: a text
async def no_cron() -> None: ...


@app.schedule("@daily")
async def report(day: int = 1) -> int:
    return day


async def by_hand() -> None:
    await report.enqueue("today")  # error: a number
    await app.schedules.create("nightly", "@daily")  # error: no task
    await app.schedules.create("nightly", 5, report)  # error: seconds are no trigger
    await app.schedules.update("nightly", max_runs="often")  # error: a number
    await app.schedules.next("nightly", "all")  # error: a number
    await app.calendars.save("weekend", ["SAT", "SUN"])  # error: no calendar
