-- Delete idempotency keys that have expired, but for those that somebody is just taking.
-- $1 limit
-- $2 role  $3 term  $4 node of the leader who does it; NULL for anybody else
WITH leader AS MATERIALIZED (
    SELECT 1 FROM detent.detent_leader
    WHERE role = $2::text AND term = $3::bigint AND node = $4::uuid
    FOR KEY SHARE
)
DELETE FROM detent.detent_key
WHERE ctid = ANY (ARRAY(
    SELECT expired.row
    FROM (SELECT clock_timestamp() AS now OFFSET 0) AS clock
    CROSS JOIN LATERAL (
        SELECT ctid AS row
        FROM detent.detent_key
        WHERE expires_at <= clock.now AND ($2::text IS NULL OR EXISTS (SELECT 1 FROM leader))
        ORDER BY expires_at
        LIMIT $1
        FOR UPDATE SKIP LOCKED
    ) AS expired
))
RETURNING 1
