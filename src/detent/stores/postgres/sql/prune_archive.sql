-- Delete archived jobs that have been there for long.
-- $1 how long, in seconds  $2 limit
DELETE FROM detent.detent_archive
WHERE ctid = ANY (ARRAY(
    SELECT old.row
    FROM (SELECT clock_timestamp() - $1::float8 * interval '1 second' AS moment OFFSET 0) AS bound
    CROSS JOIN LATERAL (
        SELECT ctid AS row
        FROM detent.detent_archive
        WHERE archived_at <= bound.moment
        ORDER BY archived_at
        LIMIT $2
        FOR UPDATE SKIP LOCKED
    ) AS old
))
RETURNING 1
