-- Queues that hold live jobs or are paused. Counts the live rows: for people, not for loops.
WITH live AS (
    SELECT split_part(split_part(lane, '+', 1), '~', 1) AS queue, 'pending' AS place, due_at
    FROM detent.detent_ready
    UNION ALL
    SELECT split_part(split_part(lane, '+', 1), '~', 1), 'running', NULL FROM detent.detent_running
    UNION ALL
    SELECT split_part(split_part(lane, '+', 1), '~', 1), 'parked', NULL FROM detent.detent_parked
), counted AS (
    SELECT
        queue,
        count(*) FILTER (WHERE place = 'pending') AS pending,
        count(*) FILTER (WHERE due_at <= clock_timestamp()) AS due,
        count(*) FILTER (WHERE place = 'running') AS running,
        min(due_at) FILTER (WHERE due_at <= clock_timestamp()) AS oldest_due_at
    FROM live
    GROUP BY queue
)
SELECT
    coalesce(counted.queue, known.name) AS name,
    known.paused_at IS NOT NULL AS paused,
    coalesce(counted.pending, 0) AS pending,
    coalesce(counted.due, 0) AS due,
    coalesce(counted.running, 0) AS running,
    counted.oldest_due_at,
    known.slots
FROM counted
FULL JOIN detent.detent_queue AS known ON known.name = counted.queue
ORDER BY name
