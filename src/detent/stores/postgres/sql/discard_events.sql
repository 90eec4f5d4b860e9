-- Remove events that are not to be delivered any more.
-- $1 ids or NULL for any  $2 sink or NULL for any  $3 limit
WITH gone AS (
    DELETE FROM detent.detent_event
    WHERE id = ANY (ARRAY(
        SELECT id FROM detent.detent_event
        WHERE id > 0 AND ($1::bigint[] IS NULL OR id = ANY ($1))
            AND ($2::text IS NULL OR sink = $2)
        ORDER BY id
        LIMIT $3
        FOR UPDATE SKIP LOCKED
    ))
    RETURNING id, alert, sink
), steps AS MATERIALIZED (
    SELECT alert, jsonb_agg(
        jsonb_build_array(extract(epoch FROM clock_timestamp()), 'discarded', sink, NULL)
        ORDER BY sink
    ) AS added
    FROM gone
    WHERE alert IS NOT NULL
    GROUP BY alert
), noted AS (
    UPDATE detent.detent_alert
    SET trail = trail || (SELECT added FROM steps WHERE steps.alert = detent_alert.id)
    WHERE id = ANY (ARRAY(SELECT alert FROM steps))
)
SELECT id FROM gone
