-- When the next event of some sinks may be taken, NULL when none waits.
-- ?1 sinks as JSON
-- What waits for another event of its job is not due, whatever its time.
SELECT min(event.due_at)
FROM json_each(?1) AS wanted
CROSS JOIN detent_event AS event ON event.sink = wanted.value
WHERE event.parked_at IS NULL
    AND NOT EXISTS (
        SELECT 1 FROM detent_event AS earlier
        WHERE earlier.job = event.job AND earlier.sink = event.sink
            AND earlier.id < event.id AND earlier.parked_at IS NULL
    )
