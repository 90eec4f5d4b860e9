-- Give ended jobs a new life: the outcome moves to the attempts, the generation grows by one.
-- ?1 ids in one blob  ?2 generation or NULL for any

-- step: moved
SELECT CAST(json_group_array(json_array(
    hex(job.id), job.hooks, job.lane, job.priority, ?3, job.task, job.unique_key
)) AS BLOB)
FROM detent_ids(?1) AS wanted
CROSS JOIN detent_outcome AS ended ON ended.id = wanted.id
CROSS JOIN detent_job AS job ON job.id = ended.id
WHERE ?2 IS NULL OR ended.generation = ?2

-- step: archived
INSERT INTO detent_attempt (id, generation, number, kind, node, started_at, ended_at, error)
SELECT ended.id, ended.generation, ended.attempt, ended.state, ended.node, ended.started_at,
    ended.finished_at, ended.error
FROM detent_ids(?1) AS wanted
CROSS JOIN detent_outcome AS ended ON ended.id = wanted.id
WHERE (?2 IS NULL OR ended.generation = ?2)
    -- A try that failed stands there since it did.
    AND NOT (ended.state = 'failed' AND EXISTS (
        SELECT 1 FROM detent_attempt AS known
        WHERE known.id = ended.id AND known.generation = ended.generation
            AND known.number = ended.attempt AND known.error IS ended.error
    ))

-- step: ready
-- ?3 now
INSERT INTO detent_ready (id, due_at, generation, priority, hooks, lane)
SELECT job.id, ?3, ended.generation + 1, job.priority, job.hooks, job.lane
FROM detent_ids(?1) AS wanted
CROSS JOIN detent_outcome AS ended ON ended.id = wanted.id
CROSS JOIN detent_job AS job ON job.id = ended.id
WHERE ?2 IS NULL OR ended.generation = ?2

-- step: gone
DELETE FROM detent_outcome
WHERE id IN (SELECT id FROM detent_ids(?1)) AND (?2 IS NULL OR generation = ?2)

-- step: unsignaled
-- A request that came too late for the last life must not end this one.
-- ?1 ids in one blob
DELETE FROM detent_signal
WHERE id IN (SELECT id FROM detent_ids(?1))
    AND EXISTS (SELECT 1 FROM detent_ready WHERE detent_ready.id = detent_signal.id)

-- step: unprogressed
-- ?1 ids in one blob
DELETE FROM detent_progress
WHERE id IN (SELECT id FROM detent_ids(?1))
    AND EXISTS (SELECT 1 FROM detent_ready WHERE detent_ready.id = detent_progress.id)
