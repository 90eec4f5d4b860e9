-- Store new jobs that wait for others: as enqueue_jobs, but parked.
-- $1 id  $2 task  $3 queue  $4 lane  $5 priority  $6 delay in seconds  $7 due_at or NULL
-- $8 args  $9 codec  $10 options  $11 params  $12 tags as JSON or NULL  $13 hooks
-- $14 principal  $15 trace: one array each. Columns that cannot be NULL may be given as their
-- first value when all are the same; the others may be NULL as a whole.
-- $16 the jobs they wait for, in the order of $1
WITH job AS (
    INSERT INTO detent.detent_job (
        id, task, queue, lane, priority, due_at, enqueued_at, args, codec, options, params, tags,
        hooks, principal, trace
    )
    SELECT
        new.id, coalesce(new.task, ($2::text[])[1]), coalesce(new.queue, ($3::text[])[1]),
        coalesce(new.lane, ($4::text[])[1]), coalesce(new.priority, ($5::smallint[])[1]),
        -- Not now(): each row gets its own microsecond, so a batch keeps its order and the
        -- floor of a scan can stand inside it.
        coalesce(
            new.due_at,
            clock_timestamp() + coalesce(new.delay, ($6::float8[])[1]) * interval '1 second'
        ),
        clock_timestamp(), new.args, coalesce(new.codec, ($9::text[])[1]), new.options, new.params,
        CASE WHEN new.tags IS NOT NULL
            THEN ARRAY(SELECT json_array_elements_text(new.tags::json)) END,
        coalesce(new.hooks, ($13::smallint[])[1]), new.principal, new.trace
    FROM unnest(
        $1::uuid[], $2::text[], $3::text[], $4::text[], $5::smallint[], $6::float8[],
        $7::timestamptz[], $8::bytea[], $9::text[], $10::bytea[], $11::bytea[], $12::text[],
        $13::smallint[], $14::text[], $15::text[]
    ) AS new (
        id, task, queue, lane, priority, delay, due_at, args, codec, options, params, tags,
        hooks, principal, trace
    )
    -- An id that is known already was stored by an earlier try whose reply was lost.
    ON CONFLICT (id) DO NOTHING
    RETURNING id, lane, priority, due_at, hooks
)
INSERT INTO detent.detent_parked (
    id, reason, waits_for, waiting_for, parked_at, due_at, attempt, generation, priority, crashes,
    hooks, lane
)
SELECT job.id, 'overlap', said.waits_for, 1, clock_timestamp(), job.due_at, 1, 1, job.priority, 0,
    job.hooks, job.lane
FROM job
JOIN unnest($1::uuid[], $16::uuid[]) AS said (id, waits_for) ON said.id = job.id
