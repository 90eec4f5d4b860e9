-- Cancel jobs that do not run: their rows leave, an outcome stays.
-- $1 ids  $2 generation or NULL for any  $3 reason  $4 the job that takes the place, or NULL
WITH ready AS (
    DELETE FROM detent.detent_ready
    WHERE id = ANY($1::uuid[]) AND ($2::integer IS NULL OR generation = $2)
    RETURNING id, attempt, generation, hooks, NULL::uuid AS waits_for
), parked AS (
    DELETE FROM detent.detent_parked
    WHERE id = ANY($1::uuid[]) AND ($2::integer IS NULL OR generation = $2)
    RETURNING id, attempt, generation, hooks, waits_for
), gone AS (
    SELECT * FROM ready UNION ALL SELECT * FROM parked
), ended AS (
    INSERT INTO detent.detent_outcome (
        id, generation, attempt, finished_at, state, task, queue, reason, superseded_by
    )
    SELECT gone.id, gone.generation, gone.attempt, clock_timestamp(), 'canceled', job.task,
        job.queue, $3::text, $4::uuid
    FROM gone
    CROSS JOIN LATERAL (
        SELECT task, queue FROM detent.detent_job WHERE detent_job.id = gone.id OFFSET 0
    ) AS job
)
SELECT id, hooks, waits_for FROM gone
