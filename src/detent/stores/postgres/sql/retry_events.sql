-- Let undeliverable events be tried again as if they were new.
-- $1 ids or NULL for any  $2 sink or NULL for any  $3 limit
WITH retried AS (
    UPDATE detent.detent_event
    SET parked_at = NULL, due_at = clock_timestamp(), tries = 0
    WHERE id = ANY (ARRAY(
        SELECT id FROM detent.detent_event
        WHERE id > 0 AND parked_at IS NOT NULL AND ($1::bigint[] IS NULL OR id = ANY ($1))
            AND ($2::text IS NULL OR sink = $2)
        ORDER BY id
        LIMIT $3
        FOR UPDATE SKIP LOCKED
    ))
    RETURNING id, alert, sink
), steps AS MATERIALIZED (
    SELECT alert, jsonb_agg(
        jsonb_build_array(extract(epoch FROM clock_timestamp()), 'retried', sink, NULL)
        ORDER BY sink
    ) AS added
    FROM retried
    WHERE alert IS NOT NULL
    GROUP BY alert
), noted AS (
    UPDATE detent.detent_alert
    SET trail = trail || (SELECT added FROM steps WHERE steps.alert = detent_alert.id)
    WHERE id = ANY (ARRAY(SELECT alert FROM steps))
)
SELECT id FROM retried
