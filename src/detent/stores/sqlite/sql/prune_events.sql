-- Remove events that were undeliverable for long, and old alerts.
-- ?1 since when  ?2 limit

-- step: events
DELETE FROM detent_event
WHERE id IN (
    SELECT id FROM detent_event
    WHERE id > 0 AND parked_at IS NOT NULL AND parked_at <= ?1
    ORDER BY id
    LIMIT ?2
)

-- step: alerts
DELETE FROM detent_alert
WHERE id IN (
    SELECT id FROM detent_alert WHERE id > 0 AND last_at <= ?1 ORDER BY id LIMIT ?2
)
