-- The first due job of each lane and priority, from the very beginning, without locks. Queues
-- that are paused or have a limit are left out: claim_jobs takes nothing from them.
-- $1 lanes
WITH clock AS MATERIALIZED (SELECT clock_timestamp() AS now)
SELECT scan.lane, level.priority, head.due_at, head.id
FROM clock
CROSS JOIN LATERAL unnest($1::text[]) AS scan (lane)
CROSS JOIN LATERAL generate_series(0, 4) AS level (priority)
CROSS JOIN LATERAL (
    SELECT ready.due_at, ready.id
    FROM detent.detent_ready AS ready
    WHERE ready.lane = scan.lane
        AND ready.priority = level.priority::smallint
        AND ready.due_at <= clock.now
    ORDER BY ready.due_at, ready.id
    LIMIT 1
) AS head
WHERE NOT EXISTS (
    SELECT 1 FROM detent.detent_queue AS queue
    WHERE queue.name = split_part(split_part(scan.lane, '+', 1), '~', 1)
        AND (queue.paused_at IS NOT NULL OR queue.limited)
)
