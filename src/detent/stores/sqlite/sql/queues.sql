-- Queues that hold live jobs or are paused. Counts the live rows: for people, not for loops.
-- ?1 now
WITH live AS (
    SELECT lane, 1 AS pending, 0 AS running, due_at FROM detent_ready
    UNION ALL
    SELECT lane, 0, 1, NULL FROM detent_running
    UNION ALL
    SELECT lane, 0, 0, NULL FROM detent_parked
    UNION ALL
    -- A name without a job, so that a queue is listed that is only paused.
    SELECT name, 0, 0, NULL FROM detent_queue
)
SELECT
    counted.name,
    EXISTS (
        SELECT 1 FROM detent_queue AS known
        WHERE known.name = counted.name AND known.paused_at IS NOT NULL
    ) AS paused,
    counted.pending,
    counted.due,
    counted.running,
    counted.oldest_due_at,
    (SELECT known.slots FROM detent_queue AS known WHERE known.name = counted.name) AS slots
FROM (
    SELECT
        substr(lane, 1, min(instr(lane || '+', '+'), instr(lane || '~', '~')) - 1) AS name,
        sum(pending) AS pending,
        count(*) FILTER (WHERE due_at <= ?1) AS due,
        sum(running) AS running,
        min(due_at) FILTER (WHERE due_at <= ?1) AS oldest_due_at
    FROM live
    GROUP BY 1
) AS counted
ORDER BY counted.name
