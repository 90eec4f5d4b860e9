-- Delete archived jobs that have been there for long.
-- $1 how long, in seconds  $2 limit
-- $3 role  $4 term  $5 node of the leader who does it; NULL for anybody else
WITH leader AS MATERIALIZED (
    SELECT 1 FROM detent.detent_leader
    WHERE role = $3::text AND term = $4::bigint AND node = $5::uuid
    FOR KEY SHARE
)
DELETE FROM detent.detent_archive
WHERE ctid = ANY (ARRAY(
    SELECT old.row
    FROM (SELECT clock_timestamp() - $1::float8 * interval '1 second' AS moment OFFSET 0) AS bound
    CROSS JOIN LATERAL (
        SELECT ctid AS row
        FROM detent.detent_archive
        WHERE archived_at <= bound.moment AND ($3::text IS NULL OR EXISTS (SELECT 1 FROM leader))
        ORDER BY archived_at
        LIMIT $2
        FOR UPDATE SKIP LOCKED
    ) AS old
))
RETURNING 1
