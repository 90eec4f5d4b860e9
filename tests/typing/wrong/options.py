"""Options, filters and listeners of the wrong kind are refused."""

from datetime import timedelta

from detent import App, events

app = App("memory://")


@app.task
async def send(to: str, body: str = "") -> str:
    return to + body


def options() -> None:
    send.options(dely=timedelta(minutes=5))  # error: no such option
    send.options(delay=[5])  # error: a duration
    send.options(at="tomorrow")  # error: a datetime
    send.options(queue=7)  # error: a name
    send.options(priority="high")  # error: a Priority
    send.options(retry=3)  # error: a Retry(...)
    send.options(tags=[1, 2])  # error: texts
    send.options(params=["a"])  # error: a dict
    send.options(on_conflict="ignore")  # error: raise, return or replace
    send.options("mail")  # error: by keyword only
    send.options(queue="mail").options(delay=timedelta(1))  # error: options are given once


async def filters() -> None:
    await app.jobs.list(status="failed")  # error: it is called state
    await app.jobs.cancel_all(task=send)  # error: its name
    await app.jobs.delete_all(until="yesterday")  # error: a datetime
    await app.jobs.pause("0190")  # error: a UUID


def report(event: events.JobDied) -> None:
    assert event.error


app.on(events.JobSucceeded, report)  # error: a listener for another event


async def nodes() -> None:
    async with app.node(queues=["mail"]):  # error: with the number of jobs of each
        pass
    async with app.node(concurency=5):  # error: no such option
        pass
