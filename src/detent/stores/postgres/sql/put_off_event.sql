-- Let an event be taken again later, or never; unless others have taken it meanwhile.
-- $1 id  $2 tries  $3 job  $4 kind  $5 delay in seconds or NULL for never  $6 problem
WITH put AS (
    UPDATE detent.detent_event
    SET due_at = clock_timestamp() + coalesce($5::float8, 0) * interval '1 second',
        parked_at = CASE WHEN $5::float8 IS NULL THEN clock_timestamp() END,
        problem = $6::text
    WHERE id = $1::bigint AND tries = $2::integer
        -- After a loss of history another event may have its id.
        AND job = $3::uuid AND kind = $4::text
        -- In these words, so that no index of the waiting ones is taken for it when all are empty.
        AND coalesce(parked_at, '-infinity') = '-infinity'
    RETURNING id, alert, sink
), noted AS (
    UPDATE detent.detent_alert
    SET trail = trail || jsonb_build_array(jsonb_build_array(
        extract(epoch FROM clock_timestamp()), 'undeliverable', (SELECT sink FROM put), $6::text
    ))
    WHERE id = (SELECT alert FROM put) AND $5::float8 IS NULL
)
SELECT id FROM put
