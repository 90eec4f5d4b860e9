-- Remove events that somebody has; an alert among them is marked as delivered.

-- step: alerts
-- ?1 ids as JSON
SELECT CAST(json_group_array(json_array(event.alert, event.sink, event.tries)) AS BLOB)
FROM json_each(?1) AS wanted
CROSS JOIN detent_event AS event ON event.id = wanted.value
WHERE event.alert IS NOT NULL

-- step: told
-- ?1 alert  ?2 sink  ?3 note  ?4 now
UPDATE detent_alert
SET delivered_at = coalesce(delivered_at, ?4),
    trail = json_insert(trail, '$[#]', json_array(?4, 'told', ?2, ?3))
WHERE id = ?1

-- step: gone
-- ?1 ids as JSON
DELETE FROM detent_event WHERE id IN (SELECT value FROM json_each(?1))
