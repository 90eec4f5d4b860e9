"""procrastinate on psycopg; ten at a time was its best."""

# The peer lives in its own environment, out of sight of the type checker.
# mypy: disable-error-code="import-not-found, untyped-decorator"

from __future__ import annotations

from collections.abc import Sequence

from procrastinate import App, PsycopgConnector

from bench import probe
from bench.adapter import database_url

CONCURRENCY = 10
app = App(connector=PsycopgConnector(conninfo=database_url(), min_size=4, max_size=CONCURRENCY))


@app.task(name="noop", queue="default")
async def noop(number: int) -> None:
    probe.hit(number)


async def install() -> None:
    async with app.open_async():
        await app.schema_manager.apply_schema_async()


class Producer:
    async def open(self, callers: int, *, wake: bool) -> None:
        await app.open_async()

    async def one(self, number: int) -> None:
        await noop.defer_async(number=number)

    async def many(self, numbers: Sequence[int]) -> None:
        await noop.batch_defer_async(*[{"number": number} for number in numbers])

    async def close(self) -> None:
        await app.close_async()


async def work() -> None:
    async with app.open_async():
        await app.run_worker_async(
            concurrency=CONCURRENCY,
            queues=["default"],
            install_signal_handlers=False,
            listen_notify=True,
        )
