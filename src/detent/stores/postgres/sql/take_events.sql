-- Take due events of some sinks for a while.
-- $1 sinks  $2 how many each has room for: one array each  $3 lease in seconds
WITH due AS MATERIALIZED (
    SELECT event.id
    FROM unnest($1::text[], $2::integer[]) AS wanted (sink, room)
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
        LIMIT wanted.room
        FOR UPDATE OF event SKIP LOCKED
    ) AS event
)
UPDATE detent.detent_event
SET due_at = clock_timestamp() + $3::float8 * interval '1 second', tries = tries + 1
WHERE id = ANY (ARRAY(SELECT id FROM due))
RETURNING id, sink, kind, job, task, queue, generation, attempt, at, duration, node, reason, error,
    alert, tries
