-- Remove events that somebody has; an alert among them is marked as delivered.
-- $1 ids
WITH gone AS (
    DELETE FROM detent.detent_event WHERE id = ANY ($1::bigint[]) RETURNING alert
), marked AS (
    UPDATE detent.detent_alert
    SET delivered_at = clock_timestamp()
    WHERE id = ANY (ARRAY(SELECT alert FROM gone WHERE alert IS NOT NULL))
        AND delivered_at IS NULL
)
SELECT count(*) FROM gone
