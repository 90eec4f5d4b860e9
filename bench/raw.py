"""Plain inserts of a Detent job, without Detent: what one durable row costs on this machine.

The bar "share of a raw insert" compares with this line: the same tables, the same columns filled,
the same driver, one statement and one commit per call.
"""

from __future__ import annotations

import time
from datetime import UTC, datetime
from typing import Any

from bench import prototype
from bench.adapter import database_url
from detent.stores.postgres import PostgresStore

INSERT_ONE = """
WITH cold AS (
    INSERT INTO detent.detent_job
        (id, task, queue, lane, priority, due_at, enqueued_at, args, codec)
    VALUES ($1, $2, $3, $4, $5, $6, $6, $7, $8))
INSERT INTO detent.detent_ready (id, lane, priority, due_at) VALUES ($1, $4, $5, $6)
"""
INSERT_MANY = """
WITH given AS MATERIALIZED (
    SELECT * FROM unnest($1::uuid[], $2::text[], $3::text[], $4::text[], $5::smallint[],
                         $6::timestamptz[], $7::bytea[], $8::text[])
        AS given (id, task, queue, lane, priority, due_at, args, codec)),
cold AS (
    INSERT INTO detent.detent_job
        (id, task, queue, lane, priority, due_at, enqueued_at, args, codec)
    SELECT id, task, queue, lane, priority, due_at, due_at, args, codec FROM given)
INSERT INTO detent.detent_ready (id, lane, priority, due_at)
SELECT id, lane, priority, due_at FROM given
"""


async def install() -> None:
    store = PostgresStore(database_url(), auto_migrate=True)
    await store.open()
    await store.close()


class Producer(prototype.Producer):
    insert_one = INSERT_ONE
    insert_many = INSERT_MANY

    def row(self, number: int) -> tuple[Any, ...]:
        now = datetime.fromtimestamp(time.time(), UTC)
        args = b"[[%d],{}]" % number
        return prototype.new_id(), "bench.noop", "default", "default", 2, now, args, "json"


async def work() -> None:
    raise NotImplementedError("raw inserts have no node")
