-- Schedules whose next slot has come. Without one, a single row that only tells the time.
-- $1 tasks that the asking node knows  $2 limit
WITH clock AS MATERIALIZED (
    -- Read once, as a value: a volatile function cannot bound an index scan.
    SELECT clock_timestamp() AS now
)
SELECT clock.now, due.*
FROM clock
LEFT JOIN LATERAL (
    SELECT * FROM detent.detent_schedule
    WHERE due_at IS NOT NULL AND paused_at IS NULL AND due_at <= clock.now
        AND task = ANY($1::text[])
    ORDER BY due_at, priority DESC
    LIMIT $2
) AS due ON true
