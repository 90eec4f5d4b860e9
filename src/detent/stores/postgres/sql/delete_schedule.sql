-- Remove a schedule; its slots stay, as history.
-- $1 name  $2 the revision that was seen, or NULL for any
-- $3 role  $4 term  $5 node of the leader who does it; NULL for anybody else
WITH leader AS MATERIALIZED (
    SELECT 1 FROM detent.detent_leader
    WHERE role = $3::text AND term = $4::bigint AND node = $5::uuid
    FOR KEY SHARE
)
DELETE FROM detent.detent_schedule
WHERE name = $1 AND ($2::bigint IS NULL OR revision = $2)
    AND ($3::text IS NULL OR EXISTS (SELECT 1 FROM leader))
RETURNING name
