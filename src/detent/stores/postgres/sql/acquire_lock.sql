-- Take a lock that is free, or whose time is over. No fence: somebody else holds it.
-- $1 name  $2 holder  $3 owner  $4 seconds  $5 key for taking turns
WITH turn AS MATERIALIZED (
    -- One at a time for each name, until the commit: else one who drew his fence earlier could
    -- come later, and the fences of a name would not only grow.
    SELECT pg_advisory_xact_lock($5::bigint)
    WHERE NOT EXISTS (
        SELECT 1 FROM detent.detent_lock
        WHERE name = $1 AND holder <> $2 AND expires_at > clock_timestamp()
    )
), taken AS (
    INSERT INTO detent.detent_lock AS held (name, fence, holder, owner, acquired_at, expires_at)
    SELECT $1, detent.detent_epoch() + nextval('detent.detent_lock_fence'), $2, $3::text,
        clock_timestamp(), clock_timestamp() + $4::float8 * interval '1 second'
    FROM turn
    ON CONFLICT (name) DO UPDATE
    SET fence = CASE WHEN held.holder = $2 THEN held.fence ELSE excluded.fence END,
        holder = excluded.holder,
        owner = excluded.owner,
        acquired_at = CASE WHEN held.holder = $2 THEN held.acquired_at ELSE excluded.acquired_at END,
        expires_at = excluded.expires_at
    WHERE held.holder = $2 OR held.expires_at <= clock_timestamp()
    RETURNING fence
)
SELECT
    (SELECT fence FROM taken) AS fence,
    coalesce(
        (SELECT greatest(extract(epoch FROM expires_at - clock_timestamp()), 0)
         FROM detent.detent_lock WHERE name = $1),
        0
    )::float8 AS free_in
