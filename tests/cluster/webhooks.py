"""The app of the nodes that deliver events: its sink is named by the environment."""

import os

from detent import App, Fail, Retry
from detent.alerts import WebhookAlert
from detent.events import JobDied, JobSucceeded
from detent.sinks import WebhookSink

SECRET = "a secret of both sides"

app = App()


@app.task(name="billing.pay", retry=Retry(max_attempts=1))
async def pay(number: int) -> int:
    if number % 3 == 2:
        raise Fail(f"card {number} was refused")
    return number


@app.task(name="other.work")
async def other() -> None: ...


if url := os.environ.get("WEBHOOK_URL"):
    app.sink(
        "billing",
        WebhookSink(f"{url}/events", secret=SECRET, timeout=1.0),
        events=(JobSucceeded, JobDied),
        tasks=("billing.*",),
        timeout=2.0,
    )
    app.alerts.to(WebhookAlert(f"{url}/alerts", secret=SECRET, timeout=1.0))
