"""One run of the chaos, from an empty database to the verdict."""

import asyncio
import contextlib
import os
import shutil
import tempfile
import time
from collections.abc import AsyncIterator, Iterator, Sequence
from pathlib import Path
from typing import Final

from detent.stores.postgres.migrations import migrate
from detent.testing.postgres import TemporaryPostgres
from tests.chaos.ledger import count
from tests.chaos.nemesis import Nemesis
from tests.chaos.nodes import ChaosNode
from tests.chaos.plan import Plan
from tests.chaos.producer import Producer
from tests.chaos.proxy import FaultProxy
from tests.chaos.schedules import Timetable
from tests.chaos.tasks import Effect
from tests.chaos.verdict import STAYED, Verdict, find_stalls, judge
from tests.cluster.database import connected

DURABLE: Final = {"max_connections": "200", "log_lock_waits": "on"}
TELL: Final = 5.0


async def run(plan: Plan, *, say: bool = False, keep: Path | None = None) -> Verdict:
    """Run it and return the verdict. However it ends, it leaves no process behind.

    What nodes and the server said, and the effects, are kept in the folder `keep`.
    """
    with (
        _folder(keep) as folder,
        TemporaryPostgres(durable=True, settings=DURABLE) as server,
    ):
        url = server.create_database("chaos")
        await migrate(url, "detent")
        began = time.monotonic()
        async with _nodes(plan, url, folder) as nodes:
            nemesis = Nemesis(plan, nodes, server, url)
            producer = Producer(url, plan, lambda: nemesis.share)
            timetable = Timetable(url)
            await timetable.begin()
            try:
                async with asyncio.timeout(plan.longest):
                    await _play(producer, nemesis, timetable, say=say)
                    await _all_up(nodes, url)
                late = []
            except TimeoutError:
                late = [f"{producer.left:,} jobs left, {nemesis.done.lacking(plan.least)} lacking"]
            finally:
                await nemesis.let_go()
            server.start()
            codes = await asyncio.gather(*(node.stop() for node in nodes))
            effects = Effect.read_all(folder)
            verdict = await _judge(server, url, producer, timetable, effects)
            stalls = find_stalls(effects, nemesis.mended_at, plan.patience)
            verdict.refuse("I11 jobs were left, and nobody did anything", stalls)
            verdict.refuse(f"it took longer than {plan.longest:.0f} s", late)
            verdict.refuse("a node did not leave in peace", [code for code in codes if code != 0])
            raised = [error for node in nodes for error in node.raised()]
            verdict.refuse("I14 an error that nobody expected", raised)
            count(verdict, plan, producer, nemesis, nodes)
            verdict.numbers["slots of schedules, each one job"] = f"{timetable.slots:,}"
        verdict.numbers["seconds"] = f"{time.monotonic() - began:.0f}"
        if keep is not None:
            shutil.copyfile(server.log_path, folder / "postgres.log")
            (folder / "ledger.txt").write_text(verdict.text() + "\n")
        return verdict


@contextlib.contextmanager
def _folder(keep: Path | None) -> Iterator[Path]:
    if keep is None:
        with tempfile.TemporaryDirectory(prefix="detent-chaos-") as name:
            yield Path(name)
    else:
        keep.mkdir(parents=True)
        yield keep


@contextlib.asynccontextmanager
async def _nodes(plan: Plan, url: str, folder: Path) -> AsyncIterator[list[ChaosNode]]:
    """Start the nodes; at the end of the block there are none, however it ends."""
    async with contextlib.AsyncExitStack() as stack:
        lifeline = stack.enter_context(_pipe())
        nodes = []
        for number in range(1, plan.nodes + 1):
            proxy = await stack.enter_async_context(FaultProxy(url))
            node = ChaosNode(
                f"node-{number}", proxy, folder, plan.settings(), lifeline, alone=number % 2 == 0
            )
            nodes.append(node)
        try:
            for node in nodes:
                node.start()
            yield nodes
        finally:
            for node in nodes:
                if node.alive:
                    node.kill()


@contextlib.contextmanager
def _pipe() -> Iterator[int]:
    """The end of a pipe that breaks when this process is gone."""
    reading, writing = os.pipe()
    try:
        yield reading
    finally:
        os.close(writing)
        os.close(reading)


async def _play(producer: Producer, nemesis: Nemesis, timetable: Timetable, *, say: bool) -> None:
    """Let jobs come and things break; then, with everything mended, wait until no job is left."""
    beside = [asyncio.create_task(producer.watch())]
    if say:
        beside.append(asyncio.create_task(_tell(producer, nemesis)))
    try:
        async with asyncio.TaskGroup() as group:
            group.create_task(producer.run())
            group.create_task(nemesis.run(lambda: producer.over))
        await timetable.rest()
        # Whoever looked last may have looked before the last slot.
        producer.left = 1
        await producer.until_left(0)
    finally:
        for task in beside:
            task.cancel()


async def _all_up(nodes: Sequence[ChaosNode], url: str) -> None:
    """Have every node at work, and all others declared dead, so that each can leave in peace.

    One that was started while PostgreSQL was not there has given up.
    """
    while True:
        for node in nodes:
            if not node.alive:
                node.start()
        if all(node.is_up for node in nodes):
            async with connected(url) as connection:
                if len(await connection.fetch(STAYED)) == len(nodes):
                    return
        await asyncio.sleep(0.1)


async def _tell(producer: Producer, nemesis: Nemesis) -> None:
    began = time.monotonic()
    while True:
        done, brought = nemesis.done, len(producer.acknowledged)
        print(  # noqa: T201  for whoever waits
            f"{time.monotonic() - began:>5.0f} s {brought - producer.left:>8,} of {brought:,} jobs "
            f"done; {done.kills} killed, {done.freezes} frozen, {done.blackholes} cut off, "
            f"{done.restarts} restarts of PostgreSQL",
            flush=True,
        )
        await asyncio.sleep(TELL)


async def _judge(
    server: TemporaryPostgres,
    url: str,
    producer: Producer,
    timetable: Timetable,
    effects: Sequence[Effect],
) -> Verdict:
    async with connected(url) as connection:
        verdict = await judge(connection, producer.acknowledged, effects)
        slots = await timetable.judge(connection)
        verdict.refuse("a slot of a schedule has not exactly one job", slots)
    log = server.log_path.read_text(errors="replace")
    verdict.refuse("I14 a deadlock", ["deadlock detected"] * log.count("deadlock detected"))
    return verdict
