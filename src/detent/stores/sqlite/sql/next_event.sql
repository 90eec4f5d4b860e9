-- When the next event of a sink may be taken, NULL when none waits.
-- ?1 sink
-- What waits for another event of its job is not due, whatever its time.
SELECT (
    SELECT event.due_at
    FROM detent_event AS event
    WHERE event.sink = ?1 AND event.parked_at IS NULL
        AND NOT EXISTS (
            SELECT 1 FROM detent_event AS earlier
            WHERE earlier.job = event.job AND earlier.sink = event.sink
                AND earlier.id < event.id AND earlier.parked_at IS NULL
        )
    ORDER BY event.due_at, event.id
    LIMIT 1
)
