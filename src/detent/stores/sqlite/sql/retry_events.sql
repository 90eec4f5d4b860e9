-- Let undeliverable events be tried again as if they were new.

-- step: parked
-- ?1 ids as JSON or NULL for any  ?2 sink or NULL for any  ?3 limit
SELECT CAST(json_group_array(json_array(id, alert, sink)) AS BLOB)
FROM (
    SELECT id, alert, sink FROM detent_event
    WHERE id > 0 AND parked_at IS NOT NULL
        AND (?1 IS NULL OR id IN (SELECT value FROM json_each(?1)))
        AND (?2 IS NULL OR sink = ?2)
    ORDER BY id
    LIMIT ?3
)

-- step: retried
-- ?1 ids as JSON  ?2 now
UPDATE detent_event SET parked_at = NULL, due_at = ?2, tries = 0
WHERE id IN (SELECT value FROM json_each(?1))

-- step: noted
-- ?1 alert  ?2 sink  ?3 now
UPDATE detent_alert
SET trail = json_insert(trail, '$[#]', json_array(?3, 'retried', ?2, NULL))
WHERE id = ?1
