-- Schedules that nobody has fired for long, of tasks that the asking node does not know.
-- $1 tasks that the asking node knows  $2 how late, in seconds  $3 limit
WITH clock AS MATERIALIZED (
    SELECT clock_timestamp() - $2::float8 * interval '1 second' AS since
)
SELECT late.*
FROM clock
CROSS JOIN LATERAL (
    SELECT * FROM detent.detent_schedule
    WHERE due_at IS NOT NULL AND paused_at IS NULL AND due_at <= clock.since
        AND problem IS NULL AND NOT task = ANY($1::text[])
    ORDER BY due_at
    LIMIT $3
) AS late
