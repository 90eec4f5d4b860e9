"""Tells a receiver outside how jobs ended: signed, at least once, also when it is down at first.

Run it with `python shop.py`. The receiver is a small web server in the same program; in real life
it is somebody else's.
"""

import asyncio
import json
import threading
from datetime import timedelta
from http.server import BaseHTTPRequestHandler, HTTPServer
from typing import Any

from detent import App, Fail, Retry
from detent.alerts import AlertInfo, LogAlert
from detent.events import JobDied, JobSucceeded
from detent.sinks import WebhookSink, verify_signature

SECRET = "known to both sides"
ORDERS = (11, 12, 13)

app = App("memory://")


@app.task(name="billing.charge", retry=Retry(max_attempts=2, delay=timedelta(milliseconds=10)))
async def charge(order: int) -> str:
    if order == 13:
        raise Fail(f"the card of order {order} was refused")
    return f"receipt {order}"


# The side that receives


received: dict[int, dict[str, Any]] = {}
all_received = threading.Event()


class Receiver(BaseHTTPRequestHandler):
    """Takes events; the first time it is asked it is down."""

    refused = 0

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"]))
        if not verify_signature(body, dict(self.headers.items()), SECRET):
            self.send_error(401)
            return
        if not Receiver.refused:
            Receiver.refused += 1
            self.send_error(503)
            return
        event = json.loads(body)
        # The same event may come twice: its id tells.
        received[event["id"]] = event
        self.send_response(204)
        self.end_headers()
        if len(received) == len(ORDERS):
            all_received.set()

    def log_message(self, *_: Any) -> None: ...


def receive() -> HTTPServer:
    server = HTTPServer(("127.0.0.1", 0), Receiver)
    threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
    return server


# The side that sends


@app.listener(JobSucceeded, JobDied)
async def count(event: JobSucceeded | JobDied) -> None:
    heard.append(type(event).__name__)


def page_somebody(alert: AlertInfo) -> None:
    paged.append(f"{alert.task}: {alert.type}: {alert.message}")
    somebody_came.set()


heard: list[str] = []
paged: list[str] = []
somebody_came = threading.Event()


async def main() -> None:
    server = receive()
    url = f"http://127.0.0.1:{server.server_address[1]}/hooks/shop"
    app.sink(
        "billing",
        WebhookSink(url, secret=SECRET),
        events=(JobSucceeded, JobDied),
        tasks="billing.*",
    )
    app.alerts.to(LogAlert())
    app.alerts.to(page_somebody)
    async with app, app.node():
        await app.enqueue_many([charge.bind(order) for order in ORDERS])
        await asyncio.to_thread(all_received.wait, 30)
        await asyncio.to_thread(somebody_came.wait, 30)
    server.shutdown()
    for event in sorted(received.values(), key=lambda event: str(event["job"]["id"])):
        job = event["job"]
        error = f": {job['error']['message']}" if job["error"] else ""
        print(f"told that {job['task']} {job['state']}{error}")
    print(f"the receiver was down {Receiver.refused} time")
    print("heard in this process:", ", ".join(sorted(heard)))
    print("paged:", *paged)


asyncio.run(main())
