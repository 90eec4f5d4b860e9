"""A tiny WSGI application, as gunicorn runs it: one app at module level, before any fork."""

import json
import os
from collections.abc import Callable, Iterable
from typing import Any

import psycopg

from detent import App
from tests.within.conftest import declare

URL = os.environ["DETENT_URL"]
app = App(URL)
send = declare(app)

# The parent has used its app before it forks: connections, loop and thread are there already.
send.enqueue_sync(f"start {os.getpid()}")
with psycopg.connect(URL) as connection:
    send.options(within=connection).enqueue_sync(f"start {os.getpid()}")


def application(environ: dict[str, Any], start_response: Callable[..., Any]) -> Iterable[bytes]:
    plain = send.enqueue_sync(f"request {os.getpid()}")
    with psycopg.connect(URL) as connection:
        joined = send.options(within=connection).enqueue_sync(f"request {os.getpid()}")
    start_response("200 OK", [("Content-Type", "application/json"), ("Connection", "close")])
    return [json.dumps([os.getpid(), str(plain.id), str(joined.id)]).encode()]
