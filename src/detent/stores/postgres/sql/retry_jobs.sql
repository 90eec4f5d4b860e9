-- Give ended jobs a new life: the outcome moves to the attempts, the generation grows by one.
-- $1 ids  $2 generation or NULL for any
WITH ended AS (
    DELETE FROM detent.detent_outcome
    WHERE id = ANY($1::uuid[]) AND ($2::integer IS NULL OR generation = $2)
    RETURNING *
), archived AS (
    INSERT INTO detent.detent_attempt (
        id, generation, number, kind, node, started_at, ended_at, error
    )
    SELECT id, generation, attempt, state, node, started_at, finished_at, error FROM ended
    -- A try that failed stands there since it did.
    WHERE NOT (state = 'failed' AND EXISTS (
        SELECT 1 FROM detent.detent_attempt AS known
        WHERE known.id = ended.id AND known.generation = ended.generation
            AND known.number = ended.attempt AND known.error IS NOT DISTINCT FROM ended.error
    ))
), unsignaled AS (
    -- A request that came too late for the last life must not end this one.
    DELETE FROM detent.detent_signal WHERE id = ANY (ARRAY(SELECT id FROM ended))
), unprogressed AS (
    DELETE FROM detent.detent_progress WHERE id = ANY (ARRAY(SELECT id FROM ended))
), back AS (
    INSERT INTO detent.detent_ready (id, due_at, generation, priority, hooks, lane)
    SELECT job.id, clock_timestamp(), ended.generation + 1, job.priority, job.hooks, job.lane
    FROM ended
    CROSS JOIN LATERAL (
        SELECT * FROM detent.detent_job WHERE detent_job.id = ended.id OFFSET 0
    ) AS job
    RETURNING id, hooks, lane, priority, due_at
)
SELECT back.*, job.task, job.unique_key
FROM back
CROSS JOIN LATERAL (
    SELECT task, unique_key FROM detent.detent_job WHERE detent_job.id = back.id OFFSET 0
) AS job
