-- Delete ended jobs with all that belongs to them. Jobs that have not ended are left alone.
-- ?1 ids in one blob; of those that have ended, except in the first step

-- step: ended
SELECT CAST(json_group_array(json_array(hex(id), live)) AS BLOB)
FROM (
    SELECT outcome.id, 1 AS live
    FROM detent_ids(?1) AS wanted
    CROSS JOIN detent_outcome AS outcome ON outcome.id = wanted.id
    UNION ALL
    SELECT archive.id, 0
    FROM detent_ids(?1) AS wanted
    CROSS JOIN detent_archive AS archive ON archive.id = wanted.id
)

-- step: archived
DELETE FROM detent_archive WHERE id IN (SELECT id FROM detent_ids(?1))

-- step: keys
DELETE FROM detent_key
WHERE kind = 'idempotency'
    AND key IN (
        SELECT job.idempotency_key FROM detent_ids(?1) AS wanted
        CROSS JOIN detent_job AS job ON job.id = wanted.id
        WHERE job.idempotency_key IS NOT NULL
    )
    AND job IN (SELECT id FROM detent_ids(?1))

-- step: tags
DELETE FROM detent_tag
WHERE (tag, id) IN (
    SELECT tag.value, job.id FROM detent_ids(?1) AS wanted
    CROSS JOIN detent_job AS job ON job.id = wanted.id
    CROSS JOIN json_each(job.tags) AS tag
    WHERE job.tags IS NOT NULL
)

-- step: outcome
DELETE FROM detent_outcome WHERE id IN (SELECT id FROM detent_ids(?1))

-- step: job
DELETE FROM detent_job WHERE id IN (SELECT id FROM detent_ids(?1))

-- step: attempts
DELETE FROM detent_attempt WHERE id IN (SELECT id FROM detent_ids(?1))

-- step: lines
DELETE FROM detent_log WHERE id IN (SELECT id FROM detent_ids(?1))

-- step: signals
DELETE FROM detent_signal WHERE id IN (SELECT id FROM detent_ids(?1))

-- step: progress
DELETE FROM detent_progress WHERE id IN (SELECT id FROM detent_ids(?1))
