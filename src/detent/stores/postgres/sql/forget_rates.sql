-- Forget buckets that have been full, and passes that have counted for nothing, for so long.
-- $1 seconds  $2 limit
-- $3 role  $4 term  $5 node of the leader who does it; NULL for anybody else
WITH leader AS MATERIALIZED (
    SELECT 1 FROM detent.detent_leader
    WHERE role = $3::text AND term = $4::bigint AND node = $5::uuid
    FOR KEY SHARE
), full_ones AS (
    SELECT gate FROM detent.detent_bucket
    WHERE full_at <= clock_timestamp() - $1::float8 * interval '1 second'
        AND ($3::text IS NULL OR EXISTS (SELECT 1 FROM leader))
    LIMIT $2
    FOR UPDATE SKIP LOCKED
), buckets AS (
    DELETE FROM detent.detent_bucket AS bucket
    USING full_ones
    WHERE bucket.gate = full_ones.gate
    RETURNING bucket.gate
), old_ones AS (
    SELECT ctid AS row FROM detent.detent_pass
    WHERE until <= clock_timestamp() - $1::float8 * interval '1 second'
        AND ($3::text IS NULL OR EXISTS (SELECT 1 FROM leader))
    LIMIT $2
    FOR UPDATE SKIP LOCKED
), passes AS (
    DELETE FROM detent.detent_pass
    WHERE ctid = ANY (ARRAY(SELECT row FROM old_ones))
    RETURNING gate
)
SELECT gate FROM buckets UNION ALL SELECT gate FROM passes
