"""`detent bench`: what this machine and this database can do, measured in a minute."""

import asyncio
import secrets
import statistics
import time
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Final
from urllib.parse import quote

import click

from detent.app import App
from detent.cli.command import Whole, example, json_option, url_option
from detent.cli.output import print_json, status
from detent.cli.running import load_config, run
from detent.config import Config, redact
from detent.databases import drop_store
from detent.stores.sqlite.address import path_of
from detent.tasks import Task

CHUNK: Final = 5000
SINGLES: Final = 200


@dataclass(frozen=True, slots=True)
class Measurement:
    """What was measured; rates are jobs a second, waits are milliseconds."""

    url: str
    jobs: int
    concurrency: int
    enqueue_per_second: float
    run_per_second: float
    wait_p50_ms: float
    wait_p99_ms: float


@click.command(
    "bench",
    epilog=example("detent bench --url postgresql://localhost/app --jobs 50000"),
)
@url_option
@click.option(
    "--jobs",
    type=Whole(1, 10_000_000),
    default=20_000,
    show_default=True,
    metavar="N",
    help="How many jobs are run.",
)
@click.option(
    "--concurrency",
    type=Whole(1, 100_000),
    default=100,
    show_default=True,
    metavar="N",
    help="How many of them at once.",
)
@json_option
def bench_command(url: str | None, jobs: int, concurrency: int, as_json: bool) -> None:
    """Measure enqueuing and running jobs that do nothing, with one node.

    Everything happens in a schema of its own, or in a file of its own beside the one that is
    named, which is gone at the end.
    """
    given = load_config(url)
    config = _throw_away(given, concurrency)
    try:
        measured = run(_bench(config, jobs), config, for_long=True)
    finally:
        _remove_file(config)
    measured = replace(measured, url=redact(given.store.url))
    if as_json:
        print_json(asdict(measured))
    else:
        _print(measured)


def _throw_away(config: Config, concurrency: int) -> Config:
    """Return settings that touch nothing of what is already there."""
    name = f"detent_bench_{secrets.token_hex(4)}"
    if config.store.url.startswith("sqlite:"):
        beside = Path(path_of(config.store.url, config.store.schema)).with_name(f"{name}.db")
        store = replace(config.store, url=f"sqlite:///{quote(str(beside))}")
    else:
        store = replace(config.store, schema=name, auto_migrate=True)
    node = replace(config.node, queues={}, concurrency=concurrency)
    return replace(config, store=store, node=node)


async def _bench(config: Config, jobs: int) -> Measurement:
    try:
        async with App(config=config) as app:
            return await _measure(app, jobs)
    finally:
        if not config.store.url.startswith(("memory:", "sqlite:")):
            await drop_store(config)


def _remove_file(config: Config) -> None:
    """Remove a throw-away file, which nobody has open any more."""
    if config.store.url.startswith("sqlite:"):
        for ending in ("", "-wal", "-shm", "-seen"):
            Path(path_of(config.store.url) + ending).unlink(missing_ok=True)


class Counter:
    """Counts the jobs that have run, and tells when the last of them did."""

    def __init__(self, jobs: int) -> None:
        self._left = jobs
        self.done = asyncio.Event()

    def count(self) -> None:
        """Count one job."""
        self._left -= 1
        if not self._left:
            self.done.set()


async def _measure(app: App, jobs: int) -> Measurement:
    counter = Counter(jobs)
    started: asyncio.Queue[float] = asyncio.Queue()

    @app.task(name="detent.bench.nothing")
    async def nothing(number: int) -> None:
        counter.count()

    @app.task(name="detent.bench.tell")
    async def tell() -> None:
        started.put_nowait(time.perf_counter())

    with status(f"enqueuing {jobs:,} jobs"):
        enqueuing = await _enqueue(app, nothing, jobs)
    with status(f"running {jobs:,} jobs"):
        running = await _run(app, counter)
    with status(f"waiting for {SINGLES} jobs, one at a time"):
        waits = await _wait_for_each(app, tell, started)
    cuts = statistics.quantiles(waits, n=100)
    return Measurement(
        url=redact(app.config.store.url),
        jobs=jobs,
        concurrency=app.config.node.concurrency,
        enqueue_per_second=round(jobs / enqueuing, 1),
        run_per_second=round(jobs / running, 1),
        wait_p50_ms=round(cuts[49] * 1000, 2),
        wait_p99_ms=round(cuts[98] * 1000, 2),
    )


async def _enqueue(app: App, nothing: Task[[int], None], jobs: int) -> float:
    """Return the seconds that enqueuing took; chunks keep the memory flat."""
    begun = time.perf_counter()
    for first in range(0, jobs, CHUNK):
        numbers = range(first, min(first + CHUNK, jobs))
        await app.enqueue_many([nothing.bind(number) for number in numbers])
    return time.perf_counter() - begun


async def _run(app: App, counter: Counter) -> float:
    """Return the seconds from the start of a node until the end of every job is written."""
    begun = time.perf_counter()
    async with app.node():
        await counter.done.wait()
    return time.perf_counter() - begun


async def _wait_for_each(
    app: App, tell: Task[[], None], started: asyncio.Queue[float]
) -> list[float]:
    """Return the seconds from each call of `enqueue` to the start of its job on an idle node."""
    waits = []
    async with app.node():
        for _ in range(SINGLES):
            begun = time.perf_counter()
            await tell.enqueue()
            waits.append(await started.get() - begun)
    return waits


def _print(measured: Measurement) -> None:
    slots = f"one node, {measured.concurrency:,} slots"
    rows = (
        ("enqueue", f"{measured.enqueue_per_second:,.0f} jobs/s", f"{measured.jobs:,} jobs"),
        ("run", f"{measured.run_per_second:,.0f} jobs/s", slots),
        ("enqueue to start, p50", f"{measured.wait_p50_ms:.2f} ms", "one job at a time"),
        ("enqueue to start, p99", f"{measured.wait_p99_ms:.2f} ms", f"{SINGLES} jobs"),
    )
    click.echo(measured.url)
    for what, number, note in rows:
        # Bold on a terminal only: click strips the codes elsewhere.
        click.echo(f"  {what:<24}{click.style(f'{number:>16}', bold=True)}  {note}")
