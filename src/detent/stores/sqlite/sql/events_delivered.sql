-- Remove events that somebody has; an alert among them is marked as delivered.

-- step: alerts
-- ?1 [id, job in hex, kind] of each as JSON: after a loss of history another may have an id
SELECT CAST(json_group_array(json_array(event.alert, event.sink, event.tries)) AS BLOB)
FROM json_each(?1) AS wanted
CROSS JOIN detent_event AS event ON event.id = json_extract(wanted.value, '$[0]')
WHERE event.alert IS NOT NULL
    AND hex(event.job) = json_extract(wanted.value, '$[1]')
    AND event.kind = json_extract(wanted.value, '$[2]')

-- step: told
-- ?1 alert  ?2 sink  ?3 note  ?4 now
UPDATE detent_alert
SET delivered_at = coalesce(delivered_at, ?4),
    trail = json_insert(trail, '$[#]', json_array(?4, 'told', ?2, ?3))
WHERE id = ?1

-- step: gone
-- ?1 the same
DELETE FROM detent_event
WHERE id IN (
    SELECT event.id
    FROM json_each(?1) AS wanted
    CROSS JOIN detent_event AS event ON event.id = json_extract(wanted.value, '$[0]')
    WHERE hex(event.job) = json_extract(wanted.value, '$[1]') AND event.kind = json_extract(wanted.value, '$[2]')
)
