-- Store one new job that holds keys, claimable or parked behind another. Returns a row unless
-- its id is known already.
-- $1..$15 as enqueue_job  $16 idempotency key  $17 business key
-- $18 the job it waits for, or NULL
WITH job AS (
    INSERT INTO detent.detent_job (
        id, task, queue, lane, priority, due_at, enqueued_at, args, codec, options, params, tags,
        hooks, principal, trace, idempotency_key, unique_key
    )
    VALUES (
        $1, $2, $3, $4, $5,
        coalesce($7::timestamptz, clock_timestamp() + $6::float8 * interval '1 second'),
        clock_timestamp(), $8, $9, $10, $11,
        CASE WHEN $12::text IS NOT NULL
            THEN ARRAY(SELECT json_array_elements_text($12::text::json)) END,
        $13, $14, $15, $16, $17
    )
    ON CONFLICT (id) DO NOTHING
    RETURNING id, lane, priority, due_at, hooks
), parked AS (
    INSERT INTO detent.detent_parked (
        id, reason, waits_for, waiting_for, parked_at, due_at, attempt, generation, priority,
        crashes, hooks, lane
    )
    SELECT id, 'replaces', $18::uuid, 1, clock_timestamp(), due_at, 1, 1, priority, 0, hooks, lane
    FROM job
    WHERE $18::uuid IS NOT NULL
), ready AS (
    INSERT INTO detent.detent_ready (id, lane, priority, due_at, hooks)
    SELECT id, lane, priority, due_at, hooks FROM job
    WHERE $18::uuid IS NULL
)
SELECT id FROM job
