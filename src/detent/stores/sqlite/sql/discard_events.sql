-- Remove events that are not to be delivered any more.

-- step: unwanted
-- ?1 ids as JSON or NULL for any  ?2 sink or NULL for any  ?3 limit
SELECT CAST(json_group_array(json_array(id, alert, sink)) AS BLOB)
FROM (
    SELECT id, alert, sink FROM detent_event
    WHERE id > 0 AND (?1 IS NULL OR id IN (SELECT value FROM json_each(?1)))
        AND (?2 IS NULL OR sink = ?2)
    ORDER BY id
    LIMIT ?3
)

-- step: gone
-- ?1 ids as JSON
DELETE FROM detent_event WHERE id IN (SELECT value FROM json_each(?1))

-- step: noted
-- ?1 alert  ?2 sink  ?3 now
UPDATE detent_alert
SET trail = json_insert(trail, '$[#]', json_array(?3, 'discarded', ?2, NULL))
WHERE id = ?1
