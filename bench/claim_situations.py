"""The situations in which a claim must cost the same, made by SQL.

Every situation ends with the same number of fresh pending jobs; what differs is what else lies
in the tables. Jobs are numbered: what was there before has low numbers and is older, so it
stands in front of the fresh ones wherever an index would have to walk over it.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

from bench.server import Server

PAGE = 50_000  # rows per statement while jobs pass under a held snapshot


@dataclass(frozen=True)
class Shape:
    """How the jobs of a situation are spread; `lane` and `priority` are SQL over the number n."""

    name: str
    lanes: tuple[str, ...]
    lane: str = "'default'"
    priority: str = "2"
    # How many jobs a claim may take from one lane.
    room: int = 100
    # So many times the claimed jobs are fresh, so that no priority and no lane runs out.
    plenty: int = 1


LANES = tuple(f"lane{number:02}" for number in range(100))
SHAPES = (
    Shape("one priority", ("default",)),
    Shape("five priorities", ("default",), priority="n % 5", plenty=5),
    Shape("100 lanes", LANES, lane="'lane' || lpad((n % 100)::text, 2, '0')", room=10, plenty=2),
    # The other end: a hundred lanes to look at and all the work in one of them.
    Shape("100 lanes, one busy", LANES, lane="'lane50'"),
)


@dataclass(frozen=True)
class Scale:
    """How many jobs: fresh ones to claim, and what "one million" means in this run."""

    fresh: int
    big: int


def job_id(number: str) -> str:
    """SQL for the id of job `number`: ordered by number, as time-ordered ids are."""
    return f"('01980000-0000-7000-8000-' || lpad(to_hex({number}), 12, '0'))::uuid"


async def add_jobs(
    connection: Any, shape: Shape, first: int, count: int, *, needs: str = "", payload: int = 100
) -> None:
    """Rows of detent_job alone, due a millisecond after each other, all of them in the past."""
    await connection.execute(
        f"""INSERT INTO detent.detent_job
                (id, task, queue, lane, priority, due_at, enqueued_at, args, codec)
            SELECT {job_id("n")}, 'bench.noop', {shape.lane}, {shape.lane} || '{needs}',
                {shape.priority}, due_at, due_at, convert_to(repeat('x', {payload}), 'UTF8'), 'json'
            FROM generate_series({first}, {first + count - 1}) AS n,
                LATERAL (SELECT now() - interval '1 hour' + n * interval '1 ms') AS d (due_at)"""
    )


def numbered(first: int, count: int) -> str:
    """SQL for the rows of a range of numbers."""
    return f"id BETWEEN {job_id(str(first))} AND {job_id(str(first + count - 1))}"


async def make_ready(connection: Any, first: int, count: int) -> None:
    await connection.execute(
        f"""INSERT INTO detent.detent_ready (id, lane, priority, due_at)
            SELECT id, lane, priority, due_at FROM detent.detent_job
            WHERE {numbered(first, count)}"""
    )


async def make_finished(connection: Any, first: int, count: int) -> None:
    await connection.execute(
        f"""INSERT INTO detent.detent_outcome
                (id, generation, attempt, finished_at, started_at, duration, state, task, queue)
            SELECT id, 1, 1, now(), now(), 0, 'succeeded', task, queue FROM detent.detent_job
            WHERE {numbered(first, count)}"""
    )


async def add_fresh(connection: Any, shape: Shape, scale: Scale, *, payload: int = 100) -> None:
    await add_jobs(connection, shape, scale.big, scale.fresh, payload=payload)
    await make_ready(connection, scale.big, scale.fresh)


async def nothing(connection: Any, shape: Shape, scale: Scale) -> None:
    """Only the fresh jobs."""


async def pending(connection: Any, shape: Shape, scale: Scale) -> None:
    """A backlog: the fresh jobs stand at its end, claims take from its head."""
    await add_jobs(connection, shape, 0, scale.big)
    await make_ready(connection, 0, scale.big)


async def finished(connection: Any, shape: Shape, scale: Scale) -> None:
    await add_jobs(connection, shape, 0, scale.big)
    await make_finished(connection, 0, scale.big)


async def foreign(connection: Any, shape: Shape, scale: Scale) -> None:
    """Older jobs in the same queues that need a capability this node does not offer."""
    await add_jobs(connection, shape, 0, scale.big // 10, needs="+gpu")
    await make_ready(connection, 0, scale.big // 10)


async def parked(connection: Any, shape: Shape, scale: Scale) -> None:
    """Older jobs in the same lanes that are not to be claimed."""
    count = scale.big // 10
    await add_jobs(connection, shape, 0, count)
    await connection.execute(
        f"""INSERT INTO detent.detent_parked
                (id, reason, parked_at, due_at, attempt, generation, priority, crashes, hooks,
                 lane)
            SELECT id, 'paused', now(), due_at, 1, 1, priority, 0, 0, lane
            FROM detent.detent_job WHERE {numbered(0, count)}"""
    )


async def passed(connection: Any, shape: Shape, scale: Scale) -> None:
    """Jobs come, run and end; with a snapshot held, every row they leave behind stays."""
    count = scale.big // 2
    for first in range(0, count, PAGE):
        size = min(PAGE, count - first)
        await add_jobs(connection, shape, first, size)
        await make_ready(connection, first, size)
        await connection.execute(
            f"""WITH taken AS (
                    DELETE FROM detent.detent_ready WHERE {numbered(first, size)} RETURNING *)
                INSERT INTO detent.detent_running
                    (id, fence, node, claimed_at, due_at, attempt, generation, priority, crashes,
                     hooks, lane)
                SELECT id, 1, gen_random_uuid(), now(), due_at, attempt, generation, priority,
                    crashes, hooks, lane FROM taken"""
        )
        await connection.execute(f"DELETE FROM detent.detent_running WHERE {numbered(first, size)}")
        await make_finished(connection, first, size)


@dataclass(frozen=True)
class Situation:
    title: str
    before: Callable[[Any, Shape, Scale], Awaitable[None]]
    # How many jobs lie there besides the fresh ones: the big number divided by this.
    part: int = 1
    hold_snapshot: bool = False

    def name(self, scale: Scale) -> str:
        count = scale.big // self.part
        return self.title.format(f"{count // 1_000_000}M" if count >= 1e6 else f"{count // 1000}k")


# The first is what the others are compared with.
SITUATIONS = (
    Situation("fresh", nothing),
    Situation("{} pending", pending),
    Situation("{} finished", finished),
    Situation("{} foreign", foreign, part=10),
    Situation("{} parked", parked, part=10),
    Situation("{} passed, snapshot held", passed, part=2, hold_snapshot=True),
)


@asynccontextmanager
async def prepared(
    server: Server, database: str, situation: Situation, shape: Shape, scale: Scale
) -> AsyncIterator[None]:
    """Set a database up; a held snapshot is held until the block ends."""
    async with server.connect(database) as holder, server.connect(database) as connection:
        if situation.hold_snapshot:
            await holder.execute("BEGIN ISOLATION LEVEL REPEATABLE READ")
            # A snapshot and a transaction id: nothing that dies from here on can be removed.
            await holder.fetchval("SELECT pg_current_xact_id()::text")
        await situation.before(connection, shape, scale)
        await add_fresh(connection, shape, scale)
        await server.settle(database)
        yield
