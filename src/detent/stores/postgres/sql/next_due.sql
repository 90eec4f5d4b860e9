-- How long until the first job of each queue is due, in some of its lanes: negative or 0 when one
-- is. Queues without one have no row.
-- $1 lanes  $2 their queues: arrays of one length
-- $3 due times  $4 ids: where scans begin, five priorities for each lane, as in claim_jobs
WITH clock AS MATERIALIZED (SELECT clock_timestamp() AS now)
SELECT scan.queue, extract(epoch FROM min(head.due_at) - min(clock.now))::float8 AS seconds
FROM clock
CROSS JOIN LATERAL unnest($1::text[], $2::text[]) WITH ORDINALITY AS scan (lane, queue, number)
CROSS JOIN LATERAL generate_series(0, 4) AS level (priority)
CROSS JOIN LATERAL (
    SELECT ready.due_at
    FROM detent.detent_ready AS ready
    WHERE ready.lane = scan.lane
        AND ready.priority = level.priority::smallint
        AND (ready.due_at, ready.id) >= (
            least(
                ($3::timestamptz[])[(scan.number - 1) * 5 + level.priority + 1],
                clock.now - interval '1 second'
            ),
            ($4::uuid[])[(scan.number - 1) * 5 + level.priority + 1]
        )
    ORDER BY ready.due_at, ready.id
    LIMIT 1
) AS head
WHERE NOT EXISTS (
    SELECT 1 FROM detent.detent_queue AS queue
    WHERE queue.name = scan.queue AND (queue.paused_at IS NOT NULL OR queue.limited)
)
GROUP BY scan.queue
