-- Queues that hold live jobs or are paused. Counts the live rows: for people, not for loops.
-- No row says that a job has begun; nodes say with each heartbeat how many of theirs have not.
-- ?1 now
WITH live AS (
    SELECT lane, 1 AS pending, 0 AS running, due_at, NULL AS reason FROM detent_ready
    UNION ALL
    SELECT lane, 0, 1, NULL, NULL FROM detent_running
    UNION ALL
    SELECT lane, 0, 0, NULL, reason FROM detent_parked
    UNION ALL
    -- A name without a job, so that a queue is listed that is only paused.
    SELECT name, 0, 0, NULL, NULL FROM detent_queue
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
    (SELECT known.slots FROM detent_queue AS known WHERE known.name = counted.name) AS slots,
    max(
        0,
        counted.running - (
            SELECT CAST(coalesce(sum(said.value), 0) AS INTEGER)
            FROM detent_node AS node, json_each(node.load) AS said
            WHERE node.state <> 'dead' AND said.key = 'unstarted:' || counted.name
        )
    ) AS started,
    counted.paused_jobs,
    counted.unknown,
    EXISTS (
        SELECT 1 FROM detent_node AS node, json_each(node.queues) AS said
        WHERE node.state = 'active' AND node.lease_until > ?1 AND said.key = counted.name
    ) AS served
FROM (
    SELECT
        substr(lane, 1, min(instr(lane || '+', '+'), instr(lane || '~', '~')) - 1) AS name,
        sum(pending) AS pending,
        count(*) FILTER (WHERE due_at <= ?1) AS due,
        sum(running) AS running,
        count(*) FILTER (WHERE reason = 'paused') AS paused_jobs,
        count(*) FILTER (WHERE reason = 'unknown_task') AS unknown,
        min(due_at) FILTER (WHERE due_at <= ?1) AS oldest_due_at
    FROM live
    GROUP BY 1
) AS counted
ORDER BY counted.name
