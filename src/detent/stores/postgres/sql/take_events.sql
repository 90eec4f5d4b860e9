-- Take due events of some sinks for a while.
-- $1 sinks  $2 lease in seconds  $3 limit
WITH due AS MATERIALIZED (
    SELECT event.id
    FROM unnest($1::text[]) AS wanted (sink)
    CROSS JOIN LATERAL (
        SELECT event.id
        FROM detent.detent_event AS event
        WHERE event.sink = wanted.sink AND event.parked_at IS NULL
            AND event.due_at <= clock_timestamp()
            -- The events of one job go one after the other. In these words each is looked up
            -- by its job, whatever the planner knew when there were no events.
            AND 0 = (
                SELECT count(*) FROM detent.detent_event AS earlier
                WHERE earlier.job = event.job AND earlier.id + 0 < event.id
                    AND earlier.sink || '' = event.sink
                    AND coalesce(earlier.parked_at, '-infinity') = '-infinity'
            )
        ORDER BY event.due_at, event.id
        LIMIT $3
        FOR UPDATE OF event SKIP LOCKED
    ) AS event
    LIMIT $3
)
UPDATE detent.detent_event
SET due_at = clock_timestamp() + $2::float8 * interval '1 second', tries = tries + 1
WHERE id = ANY (ARRAY(SELECT id FROM due))
RETURNING id, sink, kind, job, task, queue, generation, attempt, at, duration, node, reason, error,
    alert, tries
