"""The raw-SQL node: what one Python process can do with this layout and nothing else.

It is the yardstick "raw prototype" of the performance budget. It does what any honest node must:
a claim moves rows from ready to running, each job is its own asyncio task with a context, timing,
decoded arguments and captured errors, completions are written in batches with their history and
only while the node's epoch still stands, and the claim starts at a floor behind the dead head of
the index. It has no priorities, no leases, no retries, no typed arguments: those are what the
distance between Detent and this line pays for.

`BENCH_CLAIM_LOCK` is the ablation: `one` takes one row of the cluster before each claim, in the
claim's transaction, as Quartz does; `own` sends the same statements but locks a row of its own,
so that the cost of waiting can be told from the cost of the extra round trips.
`BENCH_CLAIM_SIZE` is how many jobs a claim takes.
"""

from __future__ import annotations

import asyncio
import contextvars
import json
import os
import random
import time
import uuid
from collections.abc import Sequence
from contextlib import suppress
from typing import Any

import asyncpg

from bench import probe
from bench.adapter import database_url

CLAIM_LOCK = "BENCH_CLAIM_LOCK"
CLAIM_SIZE = "BENCH_CLAIM_SIZE"
BATCH = int(os.environ.get(CLAIM_SIZE, "500"))
IN_FLIGHT = 2000
CONNECTIONS = 20
POLL = 0.5
CHANNEL = "bench_wake"
LOWEST = -(1 << 62)

SCHEMA = """
CREATE TABLE job (
    id uuid PRIMARY KEY, queue text NOT NULL, priority smallint NOT NULL,
    due_at timestamptz NOT NULL, task text NOT NULL, payload jsonb NOT NULL,
    max_attempts smallint NOT NULL DEFAULT 3, created_at timestamptz NOT NULL DEFAULT now());
CREATE TABLE ready (
    key bigint NOT NULL, id uuid NOT NULL, queue text NOT NULL,
    attempt smallint NOT NULL DEFAULT 0);
CREATE INDEX ready_claim ON ready (queue, key, id);
CREATE TABLE running (id uuid PRIMARY KEY, attempt smallint, node int, started_at timestamptz);
CREATE TABLE outcome (
    id uuid PRIMARY KEY, state smallint NOT NULL, attempt smallint NOT NULL, node int,
    started_at timestamptz, finished_at timestamptz NOT NULL, result jsonb, error text);
CREATE TABLE node (node int PRIMARY KEY, epoch int NOT NULL);
CREATE TABLE claim_lock (name int PRIMARY KEY);
INSERT INTO claim_lock VALUES (0);
"""

# One statement writes the cold row and the hot row.
INSERT_ONE = """
WITH cold AS (INSERT INTO job (id, queue, priority, due_at, task, payload)
              VALUES ($1, 'default', 2, to_timestamp($2::float8 / 1e6), 'bench.noop', $3))
INSERT INTO ready (key, id, queue) VALUES ($2, $1, 'default')
"""
INSERT_MANY = """
WITH given AS MATERIALIZED (
    SELECT * FROM unnest($1::uuid[], $2::bigint[], $3::jsonb[]) AS given (id, key, payload)),
cold AS (INSERT INTO job (id, queue, priority, due_at, task, payload)
         SELECT id, 'default', 2, to_timestamp(key / 1e6), 'bench.noop', payload FROM given)
INSERT INTO ready (key, id, queue) SELECT key, id, 'default' FROM given
"""
# Deleting by ctid needs no second index on ready; the floor $4 skips entries that are dead
# but that vacuum could not remove yet.
CLAIM = """
WITH taken AS (
    DELETE FROM ready WHERE ctid = ANY (ARRAY(
        SELECT ctid FROM ready WHERE queue = $1 AND key >= $4
        ORDER BY key, id LIMIT $2 FOR UPDATE SKIP LOCKED))
    RETURNING id, attempt, key),
moved AS (INSERT INTO running SELECT id, attempt + 1, $3, now() FROM taken)
SELECT taken.id, job.task, job.payload, taken.attempt + 1, taken.key
FROM taken JOIN job USING (id)
"""
# The epoch is the fence: a node that was declared dead has lost its row and writes nothing.
FINISH = """
WITH alive AS (SELECT FROM node WHERE node = $8 AND epoch = 1),
given AS MATERIALIZED (
    SELECT * FROM unnest($1::uuid[], $2::smallint[], $3::smallint[], $4::float8[], $5::float8[],
                         $6::jsonb[], $7::text[])
        AS given (id, state, attempt, started, finished, result, error)),
held AS (DELETE FROM running USING given
         WHERE running.id = given.id AND running.node = $8 AND EXISTS (SELECT FROM alive)
         RETURNING running.id)
INSERT INTO outcome (id, state, attempt, node, started_at, finished_at, result, error)
SELECT id, state, attempt, $8, to_timestamp(started), to_timestamp(finished), result, error
FROM given JOIN held USING (id)
"""

_current: contextvars.ContextVar[uuid.UUID] = contextvars.ContextVar("bench_job")


def new_id() -> uuid.UUID:
    """A time-ordered id, so that the primary keys grow at their right edge."""
    milliseconds = time.time_ns() // 1_000_000
    bits = (milliseconds << 80) | (0x7 << 76) | random.getrandbits(76)
    return uuid.UUID(int=bits & ~(0b11 << 62) | (0b10 << 62))


def payload(number: int) -> str:
    return json.dumps({"args": [number], "kwargs": {"customer": 42, "note": "hello"}})


async def install() -> None:
    connection = await asyncpg.connect(database_url())
    await connection.execute(SCHEMA)
    await connection.close()


class Producer:
    """Plain inserts, each on a free connection."""

    insert_one = INSERT_ONE
    insert_many = INSERT_MANY

    async def open(self, callers: int, *, wake: bool) -> None:
        count = min(callers, CONNECTIONS)
        self.connections = [await asyncpg.connect(database_url()) for _ in range(count)]
        self.free = [await connection.prepare(self.insert_one) for connection in self.connections]
        self.places = asyncio.Semaphore(count)
        # The wake-up goes after the commit and on its own connection: inside the inserting
        # transaction it would cut concurrent enqueues to a third.
        self.waker = await asyncpg.connect(database_url()) if wake else None
        self.notices: set[asyncio.Task[Any]] = set()

    async def one(self, number: int) -> None:
        async with self.places:
            statement = self.free.pop()
            try:
                await statement.fetch(*self.row(number))
            finally:
                self.free.append(statement)
        if self.waker is not None:
            notice = asyncio.create_task(self.waker.execute(f"NOTIFY {CHANNEL}"))
            self.notices.add(notice)
            notice.add_done_callback(self.notices.discard)

    async def many(self, numbers: Sequence[int]) -> None:
        columns = zip(*(self.row(number) for number in numbers), strict=True)
        await self.connections[0].execute(self.insert_many, *columns)

    def row(self, number: int) -> tuple[Any, ...]:
        return new_id(), time.time_ns() // 1000, payload(number)

    async def close(self) -> None:
        waker = [self.waker] if self.waker else []
        for connection in self.connections + waker:
            await connection.close()


async def noop(number: int) -> object:
    probe.hit(number)
    return None


class Node:
    """Claims, runs and finishes; claim and finish overlap on two connections."""

    def __init__(self) -> None:
        self.number = os.getpid()
        self.floor = LOWEST
        self.in_flight = 0
        self.finished: list[tuple[Any, ...]] = []
        self.tasks: set[asyncio.Task[None]] = set()
        self.room, self.work, self.wake = asyncio.Event(), asyncio.Event(), asyncio.Event()

    async def run(self) -> None:
        self.claims = await asyncpg.connect(database_url())
        self.finishes = await asyncpg.connect(database_url())
        listener = await asyncpg.connect(database_url())
        await listener.add_listener(CHANNEL, lambda *_: self.wake.set())
        await self.claims.execute("INSERT INTO node VALUES ($1, 1)", self.number)
        await self.claims.execute("INSERT INTO claim_lock VALUES ($1)", self.number)
        await asyncio.gather(self.claim_forever(), self.finish_forever())

    async def claim_forever(self) -> None:
        while True:
            if self.in_flight > IN_FLIGHT - BATCH:
                self.room.clear()
                await self.room.wait()
            self.wake.clear()
            if not await self.claim():
                with suppress(TimeoutError):
                    await asyncio.wait_for(self.wake.wait(), POLL)

    async def claim(self) -> int:
        rows = await self.claim_from(self.floor)
        if not rows and self.floor > LOWEST:
            self.floor = LOWEST  # look once at everything before saying that there is nothing
            rows = await self.claim_from(LOWEST)
        if rows:
            self.floor = min(row[4] for row in rows)
        self.in_flight += len(rows)
        for row in rows:
            task = asyncio.create_task(self.execute(row))
            self.tasks.add(task)
            task.add_done_callback(self.tasks.discard)
        return len(rows)

    async def claim_from(self, floor: int) -> list[Any]:
        arguments = ("default", BATCH, self.number, floor)
        lock = os.environ.get(CLAIM_LOCK)
        if not lock:
            return list(await self.claims.fetch(CLAIM, *arguments))
        async with self.claims.transaction():
            name = 0 if lock == "one" else self.number
            await self.claims.fetch("SELECT FROM claim_lock WHERE name = $1 FOR UPDATE", name)
            return list(await self.claims.fetch(CLAIM, *arguments))

    async def execute(self, row: Any) -> None:
        token = _current.set(row[0])
        started = time.time()
        try:
            result = await noop(*json.loads(row[2])["args"])
            self.finish(row, 2, started, None if result is None else json.dumps(result), None)
        except Exception as error:  # noqa: BLE001 - the task is a stranger's code in a real node
            self.finish(row, 3, started, None, repr(error))
        finally:
            _current.reset(token)

    def finish(
        self, row: Any, state: int, started: float, result: str | None, error: str | None
    ) -> None:
        self.finished.append((row[0], state, row[3], started, time.time(), result, error))
        self.in_flight -= 1
        self.work.set()
        if self.in_flight <= IN_FLIGHT - BATCH:
            self.room.set()

    async def finish_forever(self) -> None:
        while True:
            await self.work.wait()
            self.work.clear()
            while self.finished:
                batch, self.finished = self.finished, []
                await self.finishes.execute(FINISH, *zip(*batch, strict=True), self.number)


async def work() -> None:
    await Node().run()
