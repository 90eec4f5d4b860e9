-- Remove events that were undeliverable for long, and old alerts.
-- $1 age of events in seconds  $2 age of alerts in seconds  $3 limit
WITH parked AS (
    DELETE FROM detent.detent_event
    WHERE id = ANY (ARRAY(
        SELECT id FROM detent.detent_event
        WHERE id > 0 AND parked_at IS NOT NULL
            AND parked_at <= clock_timestamp() - $1::float8 * interval '1 second'
        ORDER BY id
        LIMIT $3
        FOR UPDATE SKIP LOCKED
    ))
    RETURNING id
), alerts AS (
    DELETE FROM detent.detent_alert
    WHERE id = ANY (ARRAY(
        SELECT id FROM detent.detent_alert
        WHERE id > 0 AND last_at <= clock_timestamp() - $2::float8 * interval '1 second'
        ORDER BY id
        LIMIT $3
        FOR UPDATE SKIP LOCKED
    ))
    RETURNING id
)
SELECT (SELECT count(*) FROM parked) + (SELECT count(*) FROM alerts)
