-- Remove events that somebody has; an alert among them is marked as delivered.
-- $1 ids
WITH gone AS (
    DELETE FROM detent.detent_event WHERE id = ANY ($1::bigint[]) RETURNING alert, sink, tries
), steps AS MATERIALIZED (
    SELECT alert, jsonb_agg(
        jsonb_build_array(
            extract(epoch FROM clock_timestamp()), 'told', sink,
            CASE WHEN tries > 1 THEN 'in try ' || tries END
        )
        ORDER BY sink
    ) AS added
    FROM gone
    WHERE alert IS NOT NULL
    GROUP BY alert
), marked AS (
    UPDATE detent.detent_alert
    SET delivered_at = coalesce(delivered_at, clock_timestamp()),
        trail = trail || (SELECT added FROM steps WHERE steps.alert = detent_alert.id)
    WHERE id = ANY (ARRAY(SELECT alert FROM steps))
)
SELECT count(*) FROM gone
