-- Remove events that somebody has; an alert among them is marked as delivered.
-- ?1 ids as JSON  ?2 now

-- step: marked
UPDATE detent_alert SET delivered_at = ?2
WHERE id IN (
        SELECT event.alert
        FROM json_each(?1) AS wanted
        CROSS JOIN detent_event AS event ON event.id = wanted.value
    )
    AND delivered_at IS NULL

-- step: gone
DELETE FROM detent_event WHERE id IN (SELECT value FROM json_each(?1))
