-- Note that somebody has seen an alert; the first one stands.
-- $1 id  $2 by whom
UPDATE detent.detent_alert
SET acked_at = clock_timestamp(), acked_by = $2::text,
    trail = trail || jsonb_build_array(
        jsonb_build_array(extract(epoch FROM clock_timestamp()), 'acked', $2::text, NULL)
    )
WHERE id = $1::bigint AND acked_at IS NULL
RETURNING id
