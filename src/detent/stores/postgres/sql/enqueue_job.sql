-- Store one new job: as enqueue_jobs, without the cost of arrays.
-- $1 id  $2 task  $3 queue  $4 lane  $5 priority  $6 delay in seconds  $7 due_at or NULL
-- $8 args  $9 codec  $10 options  $11 params  $12 tags as JSON or NULL  $13 hooks
-- $14 principal  $15 trace
-- $16 channel on which the commit sends $17, or NULL: such a commit waits for all others like it
WITH job AS (
    INSERT INTO detent.detent_job (
        id, task, queue, lane, priority, due_at, enqueued_at, args, codec, options, params, tags,
        hooks, principal, trace
    )
    VALUES (
        $1, $2, $3, $4, $5,
        coalesce($7::timestamptz, clock_timestamp() + $6::float8 * interval '1 second'),
        clock_timestamp(), $8, $9, $10, $11,
        CASE WHEN $12::text IS NOT NULL
            THEN ARRAY(SELECT json_array_elements_text($12::text::json)) END,
        $13, $14, $15
    )
    RETURNING id, lane, priority, due_at, hooks
), ready AS (
    INSERT INTO detent.detent_ready (id, lane, priority, due_at, hooks)
    SELECT id, lane, priority, due_at, hooks FROM job
    RETURNING id
)
SELECT pg_notify($16::text, $17::text) FROM ready WHERE $16::text IS NOT NULL
