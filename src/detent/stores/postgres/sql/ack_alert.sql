-- Note that somebody has seen an alert; the first one stands.
-- $1 id  $2 by whom
UPDATE detent.detent_alert
SET acked_at = clock_timestamp(), acked_by = $2::text
WHERE id = $1::bigint AND acked_at IS NULL
RETURNING id
