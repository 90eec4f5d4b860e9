"""Declarations that cannot be right are refused where they stand."""

from detent import App, JobContext, Retry

app = App("memory://")


@app.task(queues="mail")  # error: there is no such option
async def unknown_option(to: str) -> str:
    return to


@app.task(retry=3)  # error: a Retry(...)
async def retry_as_number(to: str) -> str:
    return to


@app.task(timeout=["30s"])  # error: a duration
async def timeout_as_list(to: str) -> str:
    return to


@app.task(executor=["thread"])  # error: the name of one
def two_executors(to: str) -> str:
    return to


@app.task(retry=Retry(max_attempts="five"))  # error: a number
async def attempts_as_text(to: str) -> str:
    return to


app.task("tasks.send")  # error: a name is not a function


@app.task
async def watched(ctx: JobContext, to: str) -> str:
    ctx.progres(0.5)  # error: no such method
    ctx.attempt = 2  # error: not for the task to change
    ctx.log.info()  # error: no message
    return to
