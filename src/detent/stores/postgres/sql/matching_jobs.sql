-- The newest jobs that match, driven by the small table that holds each wanted state. The job
-- itself is looked up by id, one by one: OFFSET keeps a plan that was made for small tables from
-- reading them whole. Each table has its own look, with the same filter: one look at all of them
-- would sort them first. Each begins with a condition on the states alone, so that a table whose
-- states are not wanted is not read at all.
-- $1 states, empty for all  $2 task  $3 queue  $4 tag  $5 key  $6 lowest id  $7 highest id
-- $8 only ids below  $9 limit: NULL does not filter
WITH candidate AS (
    (SELECT ready.id FROM detent.detent_ready AS ready
     CROSS JOIN LATERAL (
        SELECT 1 FROM detent.detent_job AS job
        WHERE job.id = ready.id
            AND ($2::text IS NULL OR job.task = $2) AND ($3::text IS NULL OR job.queue = $3)
            AND ($4::text IS NULL OR job.tags @> ARRAY[$4])
            AND ($5::text IS NULL OR job.idempotency_key = $5 OR job.unique_key = $5)
        OFFSET 0
     ) AS job
     WHERE 'pending' = ANY($1::text[])
        AND ready.id >= $6::uuid AND ready.id <= $7::uuid AND ready.id < $8::uuid
     ORDER BY ready.id DESC LIMIT $9)
    UNION ALL
    (SELECT running.id FROM detent.detent_running AS running
     CROSS JOIN LATERAL (
        SELECT 1 FROM detent.detent_job AS job
        WHERE job.id = running.id
            AND ($2::text IS NULL OR job.task = $2) AND ($3::text IS NULL OR job.queue = $3)
            AND ($4::text IS NULL OR job.tags @> ARRAY[$4])
            AND ($5::text IS NULL OR job.idempotency_key = $5 OR job.unique_key = $5)
        OFFSET 0
     ) AS job
     WHERE 'running' = ANY($1::text[])
        AND running.id >= $6::uuid AND running.id <= $7::uuid AND running.id < $8::uuid
     ORDER BY running.id DESC LIMIT $9)
    UNION ALL
    (SELECT parked.id FROM detent.detent_parked AS parked
     CROSS JOIN LATERAL (
        SELECT 1 FROM detent.detent_job AS job
        WHERE job.id = parked.id
            AND ($2::text IS NULL OR job.task = $2) AND ($3::text IS NULL OR job.queue = $3)
            AND ($4::text IS NULL OR job.tags @> ARRAY[$4])
            AND ($5::text IS NULL OR job.idempotency_key = $5 OR job.unique_key = $5)
        OFFSET 0
     ) AS job
     WHERE $1::text[] && ARRAY['paused', 'waiting']
        AND CASE parked.reason WHEN 'paused' THEN 'paused' ELSE 'waiting' END = ANY($1::text[])
        AND parked.id >= $6::uuid AND parked.id <= $7::uuid AND parked.id < $8::uuid
     ORDER BY parked.id DESC LIMIT $9)
    UNION ALL
    (SELECT outcome.id FROM detent.detent_outcome AS outcome
     CROSS JOIN LATERAL (
        SELECT 1 FROM detent.detent_job AS job
        WHERE job.id = outcome.id
            AND ($4::text IS NULL OR job.tags @> ARRAY[$4])
            AND ($5::text IS NULL OR job.idempotency_key = $5 OR job.unique_key = $5)
        OFFSET 0
     ) AS job
     WHERE 'succeeded' = ANY($1::text[]) AND outcome.state = 'succeeded'
        AND ($2::text IS NULL OR outcome.task = $2) AND ($3::text IS NULL OR outcome.queue = $3)
        AND outcome.id >= $6::uuid AND outcome.id <= $7::uuid AND outcome.id < $8::uuid
     ORDER BY outcome.id DESC LIMIT $9)
    UNION ALL
    -- Through the partial index of what did not succeed, so that a few failures among millions of
    -- successes are found at once.
    (SELECT outcome.id FROM detent.detent_outcome AS outcome
     CROSS JOIN LATERAL (
        SELECT 1 FROM detent.detent_job AS job
        WHERE job.id = outcome.id
            AND ($4::text IS NULL OR job.tags @> ARRAY[$4])
            AND ($5::text IS NULL OR job.idempotency_key = $5 OR job.unique_key = $5)
        OFFSET 0
     ) AS job
     WHERE $1::text[] && ARRAY['failed', 'canceled']
        AND outcome.state IN ('failed', 'canceled') AND outcome.state = ANY($1::text[])
        AND ($2::text IS NULL OR outcome.task = $2) AND ($3::text IS NULL OR outcome.queue = $3)
        AND outcome.id >= $6::uuid AND outcome.id <= $7::uuid AND outcome.id < $8::uuid
     ORDER BY outcome.id DESC LIMIT $9)
    UNION ALL
    (SELECT job.id FROM detent.detent_job AS job
     WHERE cardinality($1::text[]) = 0
        AND ($2::text IS NULL OR job.task = $2) AND ($3::text IS NULL OR job.queue = $3)
        AND ($4::text IS NULL OR job.tags @> ARRAY[$4])
        AND ($5::text IS NULL OR job.idempotency_key = $5 OR job.unique_key = $5)
        AND job.id >= $6::uuid AND job.id <= $7::uuid AND job.id < $8::uuid
     ORDER BY job.id DESC LIMIT $9)
)
SELECT id FROM candidate ORDER BY id DESC LIMIT $9
