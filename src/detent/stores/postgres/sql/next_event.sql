-- Seconds until the next event of some sinks may be taken, NULL when none waits.
-- $1 sinks
SELECT min(greatest(extract(epoch FROM head.due_at - clock_timestamp()), 0))::float8
FROM unnest($1::text[]) AS wanted (sink)
CROSS JOIN LATERAL (
    SELECT event.due_at
    FROM detent.detent_event AS event
    WHERE event.sink = wanted.sink AND event.parked_at IS NULL
        -- What waits for another event of its job is not due, whatever its time; in the words
        -- of take_events.
        AND 0 = (
            SELECT count(*) FROM detent.detent_event AS earlier
            WHERE earlier.job = event.job AND earlier.id + 0 < event.id
                AND earlier.sink || '' = event.sink
                AND coalesce(earlier.parked_at, '-infinity') = '-infinity'
        )
    ORDER BY event.due_at, event.id
    LIMIT 1
) AS head
