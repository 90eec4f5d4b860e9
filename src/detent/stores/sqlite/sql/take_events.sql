-- Take due events of a sink for a while.

-- step: due
-- In the order of the index, so that a long outbox is not read to its end.
-- The events of one job go one after the other.
-- ?1 sink  ?2 limit  ?3 now
SELECT CAST(json_group_array(json_array(
    id, sink, kind, hex(job), task, queue, generation, attempt, at, duration, hex(node), reason,
    hex(error), alert, tries + 1, error IS NULL
)) AS BLOB)
FROM (
    SELECT event.*
    FROM detent_event AS event
    WHERE event.sink = ?1 AND event.parked_at IS NULL AND event.due_at <= ?3
        AND NOT EXISTS (
            SELECT 1 FROM detent_event AS earlier
            WHERE earlier.job = event.job AND earlier.sink = event.sink
                AND earlier.id < event.id AND earlier.parked_at IS NULL
        )
    ORDER BY event.due_at, event.id
    LIMIT ?2
)

-- step: taken
-- ?1 ids as JSON  ?2 until when
UPDATE detent_event SET due_at = ?2, tries = tries + 1
WHERE id IN (SELECT value FROM json_each(?1))
