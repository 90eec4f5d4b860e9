"""Databases in the situations in which a plan may be made and kept.

A prepared statement is planned once and kept until the statistics of a table change. So the plan
for a million jobs may have been made when there was none, and that plan must not be another.
"""

import asyncio
from typing import Final

from detent.stores.postgres import PostgresStore

FRESH: Final = "nothing is known"
EMPTY: Final = "analyzed when empty"
FEW: Final = "analyzed with three rows in each table"
MANY: Final = "analyzed with 100,000 jobs in each state"

#: How many rows each table gets; None leaves the tables as they were made.
ROWS: Final = {FRESH: None, EMPTY: 0, FEW: 3, MANY: 100_000}

#: Jobs are their own twins: the same ids stand in all tables, which no statement minds.
_FILL: Final = """
INSERT INTO detent.detent_job
    (id, task, queue, lane, priority, due_at, enqueued_at, args, codec, idempotency_key, unique_key)
SELECT gen_random_uuid(), 'shop.send', 'default', 'default', n % 5, now() - n * interval '1 ms',
    now(), '[]', 'json', CASE WHEN n % 10 = 0 THEN 'key-' || n END,
    CASE WHEN n % 10 = 1 THEN 'key-' || n END
FROM generate_series(1, {rows}) AS n;

INSERT INTO detent.detent_ready (id, lane, priority, due_at)
SELECT id, lane, priority, due_at FROM detent.detent_job;

INSERT INTO detent.detent_running
    (id, fence, node, claimed_at, due_at, attempt, generation, priority, crashes, hooks, lane)
SELECT id, 1, gen_random_uuid(), now(), due_at, 1, 1, priority, 0, 0, lane FROM detent.detent_job;

INSERT INTO detent.detent_parked
    (id, reason, parked_at, due_at, attempt, generation, priority, crashes, hooks, lane)
SELECT id, 'paused', now(), due_at, 1, 1, priority, 0, 0, lane FROM detent.detent_job;

INSERT INTO detent.detent_outcome (id, generation, attempt, finished_at, state, task, queue)
SELECT id, 1, 1, now(), CASE WHEN random() < 0.001 THEN 'failed' ELSE 'succeeded' END, task, queue
FROM detent.detent_job;

INSERT INTO detent.detent_attempt (id, generation, number, kind, ended_at)
SELECT id, 1, 1, 'failed', now() FROM detent.detent_job;

INSERT INTO detent.detent_signal (id, kind, created_at)
SELECT id, 'cancel', now() FROM detent.detent_job;

INSERT INTO detent.detent_progress (id, fraction, updated_at)
SELECT id, 0.5, now() FROM detent.detent_job;

INSERT INTO detent.detent_log (id, at, attempt, level, message)
SELECT id, now(), 1, 'info', 'said' FROM detent.detent_job;

INSERT INTO detent.detent_archive
    (id, archived_at, enqueued_at, due_at, finished_at, attempt, generation, priority, kind, state,
     task, queue, lane, codec, args)
SELECT id, now(), enqueued_at, due_at, now(), 1, 1, priority, kind, 'failed', task, queue, lane,
    codec, args
FROM detent.detent_job;

INSERT INTO detent.detent_key (kind, key, scope, job, expires_at)
SELECT 'unique', unique_key, task, id, NULL FROM detent.detent_job WHERE unique_key IS NOT NULL
UNION ALL
SELECT 'idempotency', idempotency_key, task, id, now() + interval '1 day' FROM detent.detent_job
WHERE idempotency_key IS NOT NULL;

INSERT INTO detent.detent_lock (name, fence, holder, owner, acquired_at, expires_at)
SELECT 'lock-' || n, n, gen_random_uuid(), 'host:1', now(), now()
FROM generate_series(1, {rows}) AS n;

INSERT INTO detent.detent_breaker (name, version, phase, body)
SELECT 'breaker-' || n, 1, 'closed', '{{}}' FROM generate_series(1, {rows}) AS n;

INSERT INTO detent.detent_event
    (sink, kind, job, task, queue, generation, attempt, at, created_at, due_at, parked_at)
SELECT 'sink-' || n % 5, 'succeeded', gen_random_uuid(), 'shop.send', 'default', 1, 1, now(),
    now(), now(), CASE WHEN n % 100 = 0 THEN now() END
FROM generate_series(1, {rows}) AS n;

INSERT INTO detent.detent_alert
    (task, fingerprint, window_start, type, message, frame, first_job, last_job, first_at, last_at,
     count)
SELECT 'shop.send', 'mark-' || n, now(), 'OSError', 'no route', '', gen_random_uuid(),
    gen_random_uuid(), now(), now(), 1
FROM generate_series(1, {rows}) AS n;

INSERT INTO detent.detent_leader (role, term, node, name, since, lease_until, lease)
SELECT 'role-' || n, n, gen_random_uuid(), 'node', now(), now(), '15 s'
FROM generate_series(1, 3) AS n;

INSERT INTO detent.detent_daemon (name, state, node, node_name, term, since, restarts)
SELECT 'daemon-' || n, 'running', gen_random_uuid(), 'node', n, now(), 0
FROM generate_series(1, 3) AS n;

INSERT INTO detent.detent_schedule
    (name, schedule_group, owner, trigger, calendars, misfire, catch_up_limit, misfire_threshold,
     overlap, jitter, description, task, queue, lane, priority, args, codec, tags, revision,
     next_fire, due_at, runs, edited, created_at, updated_at, paused_at)
SELECT 'schedule-' || n, 'group-' || n % 100, 'code', '{{}}', '{{}}', 'skip', 1, '60 s', 'allow',
    '0 s', '', 'shop.send', 'default', 'default', n % 5, '[]', 'json', '{{}}', n,
    now() + n * interval '1 s', now() + n * interval '1 s', 0, '{{}}', now(), now(),
    CASE WHEN n % 10 = 0 THEN now() END
FROM generate_series(1, {rows}) AS n;

INSERT INTO detent.detent_slot (schedule, slot, fired_at, job, state, manual, live)
SELECT 'schedule-' || row_number() OVER (), now(), now(), id, 'fired', false, random() < 0.01
FROM detent.detent_job;

INSERT INTO detent.detent_calendar (name, data)
SELECT 'calendar-' || n, '{{}}' FROM generate_series(1, 3) AS n;

INSERT INTO detent.detent_schedule_group (name, paused_at)
SELECT 'group-' || n, now() FROM generate_series(1, 3) AS n;

INSERT INTO detent.detent_queue (name) SELECT 'queue-' || n FROM generate_series(1, 3) AS n;

INSERT INTO detent.detent_node
    (incarnation, name, state, lease_until, lease, heartbeat_at, started_at, host, pid, version,
     roles, capabilities, queues)
SELECT gen_random_uuid(), 'node-' || n, 'active', now(), '15 s', now(), now(), 'host', n, '0',
    '{{}}', '{{}}', '{{}}'
FROM generate_series(1, 3) AS n;
"""


def arrange(url: str, situation: str) -> None:
    """Bring a database with the schema into a situation."""
    rows = ROWS[situation]
    if rows is not None:
        asyncio.run(_arrange(url, rows))


async def _arrange(url: str, rows: int) -> None:
    connection = await PostgresStore(url).database.connect()
    try:
        if rows:
            await connection.execute(_FILL.format(rows=rows))
        await connection.execute("VACUUM ANALYZE")
    finally:
        await connection.close()
