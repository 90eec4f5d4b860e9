-- Give pending and paused jobs another due time. By the page, those that have it already are
-- left alone, so that pages come to an end.
-- $1 ids  $2 generation or NULL for any  $3 due_at or NULL  $4 delay in seconds from now
WITH gone AS (
    -- Hot rows are never updated: the old one leaves and a new one comes.
    DELETE FROM detent.detent_ready
    WHERE id = ANY($1::uuid[]) AND ($2::integer IS NULL OR generation = $2)
        AND ($2::integer IS NOT NULL OR due_at IS DISTINCT FROM $3::timestamptz)
    RETURNING *
), back AS (
    INSERT INTO detent.detent_ready (
        id, due_at, attempt, generation, priority, crashes, hooks, lane
    )
    SELECT id, coalesce($3::timestamptz, clock_timestamp() + $4::float8 * interval '1 second'),
        attempt, generation, priority, crashes, hooks, lane
    FROM gone
    RETURNING id, hooks, lane, priority, due_at
), paused AS (
    UPDATE detent.detent_parked
    SET due_at = coalesce($3::timestamptz, clock_timestamp() + $4::float8 * interval '1 second')
    WHERE id = ANY($1::uuid[]) AND reason = 'paused' AND ($2::integer IS NULL OR generation = $2)
        AND ($2::integer IS NOT NULL OR due_at IS DISTINCT FROM $3::timestamptz)
    RETURNING id, hooks, lane, priority, due_at
)
SELECT * FROM back UNION ALL SELECT * FROM paused
