-- Cancel jobs that do not run: their rows leave, an outcome stays.
-- ?1 ids in one blob  ?2 generation or NULL for any

-- step: canceled
SELECT CAST(json_group_array(json_array(hex(id), hooks, hex(waits_for))) AS BLOB)
FROM (
    SELECT ready.id, ready.hooks, NULL AS waits_for
    FROM detent_ids(?1) AS wanted
    CROSS JOIN detent_ready AS ready ON ready.id = wanted.id
    WHERE ?2 IS NULL OR ready.generation = ?2
    UNION ALL
    SELECT parked.id, parked.hooks, parked.waits_for
    FROM detent_ids(?1) AS wanted
    CROSS JOIN detent_parked AS parked ON parked.id = wanted.id
    WHERE ?2 IS NULL OR parked.generation = ?2
)

-- step: outcome
-- ?3 now  ?4 reason  ?5 the job that takes the place, or NULL
INSERT INTO detent_outcome (
    id, generation, attempt, finished_at, state, task, queue, reason, superseded_by
)
SELECT gone.id, gone.generation, gone.attempt, ?3, 'canceled', job.task, job.queue, ?4, ?5
FROM (
    SELECT ready.id, ready.generation, ready.attempt
    FROM detent_ids(?1) AS wanted
    CROSS JOIN detent_ready AS ready ON ready.id = wanted.id
    WHERE ?2 IS NULL OR ready.generation = ?2
    UNION ALL
    SELECT parked.id, parked.generation, parked.attempt
    FROM detent_ids(?1) AS wanted
    CROSS JOIN detent_parked AS parked ON parked.id = wanted.id
    WHERE ?2 IS NULL OR parked.generation = ?2
) AS gone
CROSS JOIN detent_job AS job ON job.id = gone.id

-- step: ready
DELETE FROM detent_ready
WHERE id IN (SELECT id FROM detent_ids(?1)) AND (?2 IS NULL OR generation = ?2)

-- step: parked
DELETE FROM detent_parked
WHERE id IN (SELECT id FROM detent_ids(?1)) AND (?2 IS NULL OR generation = ?2)

-- step: unsignaled
-- ?1 ids in one blob
-- A request that its job did not hear of has come true.
DELETE FROM detent_signal
WHERE id IN (SELECT id FROM detent_ids(?1))
    AND EXISTS (SELECT 1 FROM detent_outcome WHERE detent_outcome.id = detent_signal.id)
