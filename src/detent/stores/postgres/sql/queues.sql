-- Queues that hold live jobs or are paused. Counts the live rows: for people, not for loops.
-- No row says that a job has begun; nodes say with each heartbeat how many of theirs have not.
WITH live AS (
    SELECT split_part(split_part(lane, '+', 1), '~', 1) AS queue, 'pending' AS place, due_at
    FROM detent.detent_ready
    UNION ALL
    SELECT split_part(split_part(lane, '+', 1), '~', 1), 'running', NULL FROM detent.detent_running
    UNION ALL
    SELECT split_part(split_part(lane, '+', 1), '~', 1), reason, NULL
    FROM detent.detent_parked
), counted AS (
    SELECT
        queue,
        count(*) FILTER (WHERE place = 'pending') AS pending,
        count(*) FILTER (WHERE due_at <= clock_timestamp()) AS due,
        count(*) FILTER (WHERE place = 'running') AS running,
        count(*) FILTER (WHERE place = 'paused') AS paused_jobs,
        count(*) FILTER (WHERE place = 'unknown_task') AS unknown,
        min(due_at) FILTER (WHERE due_at <= clock_timestamp()) AS oldest_due_at
    FROM live
    GROUP BY queue
), unstarted AS (
    SELECT substr(said.key, length('unstarted:') + 1) AS queue,
        sum(said.value::float8)::bigint AS number
    FROM detent.detent_node AS node
    CROSS JOIN LATERAL jsonb_each_text(node.load) AS said
    WHERE node.state <> 'dead' AND starts_with(said.key, 'unstarted:')
    GROUP BY 1
)
SELECT
    coalesce(counted.queue, known.name) AS name,
    known.paused_at IS NOT NULL AS paused,
    coalesce(counted.pending, 0) AS pending,
    coalesce(counted.due, 0) AS due,
    coalesce(counted.running, 0) AS running,
    counted.oldest_due_at,
    known.slots,
    greatest(coalesce(counted.running, 0) - coalesce(unstarted.number, 0), 0) AS started,
    coalesce(counted.paused_jobs, 0) AS paused_jobs,
    coalesce(counted.unknown, 0) AS unknown,
    EXISTS (
        SELECT 1 FROM detent.detent_node AS node
        WHERE node.state = 'active' AND node.lease_until > clock_timestamp()
            AND node.queues ? coalesce(counted.queue, known.name)
    ) AS served
FROM counted
FULL JOIN detent.detent_queue AS known ON known.name = counted.queue
LEFT JOIN unstarted ON unstarted.queue = counted.queue
ORDER BY name
