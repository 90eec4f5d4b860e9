-- Remove locks that nobody gave back and whose time was over long ago; only by a valid leader.
-- $1 role  $2 term  $3 node  $4 seconds  $5 limit
WITH leader AS MATERIALIZED (
    SELECT 1 FROM detent.detent_leader
    WHERE role = $1 AND term = $2 AND node = $3
    FOR KEY SHARE
)
DELETE FROM detent.detent_lock
WHERE name = ANY (ARRAY(
    SELECT lock.name
    FROM leader, detent.detent_lock AS lock
    WHERE lock.expires_at <= clock_timestamp() - $4::float8 * interval '1 second'
    ORDER BY lock.name
    LIMIT $5
    FOR UPDATE OF lock SKIP LOCKED
))
RETURNING name
