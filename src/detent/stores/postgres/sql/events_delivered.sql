-- Remove events that somebody has; an alert among them is marked as delivered.
-- $1 ids, sorted  $2 their jobs  $3 their kinds: after a loss of history another may have an id
WITH gone AS (
    DELETE FROM detent.detent_event
    WHERE id = ANY ($1::bigint[])
        AND job = ($2::uuid[])[array_position($1::bigint[], id)]
        AND kind = ($3::text[])[array_position($1::bigint[], id)]
    RETURNING alert, sink, tries
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
