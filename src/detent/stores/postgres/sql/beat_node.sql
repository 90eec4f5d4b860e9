-- Renew the lease of a living node. Never creates or revives one: no row means "you are dead".
-- $1 incarnation  $2 lease in seconds
WITH me AS (
    UPDATE detent.detent_node
    SET heartbeat_at = clock_timestamp(),
        lease_until = clock_timestamp() + $2::float8 * interval '1 second'
    WHERE incarnation = $1 AND state IN ('active', 'draining')
    RETURNING 1
)
SELECT
    EXISTS (SELECT 1 FROM me) AS alive,
    clock_timestamp() AS now,
    (SELECT count(*) FROM detent.detent_node
     WHERE state = 'active' AND lease_until > clock_timestamp()) AS nodes
