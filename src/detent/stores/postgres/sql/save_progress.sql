-- Keep how far running jobs are.
-- $1 incarnation  $2 ids  $3 fences  $4 fractions  $5 messages: one array each, sorted by id
WITH mine AS (
    -- Locked: merely reading the claim is no fence against a rescue at the same moment.
    SELECT held.id, said.fraction, said.message
    FROM unnest($2::uuid[], $3::bigint[], $4::float4[], $5::text[])
        AS said (id, fence, fraction, message)
    CROSS JOIN LATERAL (
        SELECT running.id
        FROM detent.detent_running AS running
        WHERE running.id = said.id AND running.fence = said.fence AND running.node = $1
        FOR KEY SHARE
    ) AS held
)
INSERT INTO detent.detent_progress (id, fraction, message, updated_at)
SELECT id, fraction, message, clock_timestamp() FROM mine
ON CONFLICT (id) DO UPDATE
SET fraction = excluded.fraction, message = excluded.message, updated_at = excluded.updated_at
