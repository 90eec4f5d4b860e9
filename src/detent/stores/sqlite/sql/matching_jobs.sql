-- The newest jobs that match, driven by what holds the fewest: a tag, a key, or the table of each
-- wanted state.
-- ?1 task  ?2 queue  ?3 lowest id  ?4 highest id  ?5 only ids below  ?6 limit
-- ?7 tag, key, or states as JSON: NULL does not filter

-- step: any
SELECT id FROM detent_job
WHERE id >= ?3 AND id <= ?4 AND id < ?5
    AND (?1 IS NULL OR task = ?1) AND (?2 IS NULL OR queue = ?2)
ORDER BY id DESC LIMIT ?6

-- step: tagged
-- ?8 states as JSON, NULL for all
SELECT tagged.id
FROM detent_tag AS tagged
CROSS JOIN detent_job_now AS job ON job.id = tagged.id
WHERE tagged.tag = ?7 AND tagged.id >= ?3 AND tagged.id <= ?4 AND tagged.id < ?5
    AND (?1 IS NULL OR job.task = ?1) AND (?2 IS NULL OR job.queue = ?2)
    AND (?8 IS NULL OR job.state IN (SELECT value FROM json_each(?8)))
    -- ?9 key, besides the tag
    AND (?9 IS NULL OR job.idempotency_key = ?9 OR job.unique_key = ?9)
ORDER BY tagged.id DESC LIMIT ?6

-- step: keyed
-- ?8 states as JSON, NULL for all
SELECT keyed.id
FROM (
    SELECT id FROM detent_job WHERE idempotency_key = ?7
    UNION
    SELECT id FROM detent_job WHERE unique_key = ?7
) AS keyed
CROSS JOIN detent_job_now AS job ON job.id = keyed.id
WHERE keyed.id >= ?3 AND keyed.id <= ?4 AND keyed.id < ?5
    AND (?1 IS NULL OR job.task = ?1) AND (?2 IS NULL OR job.queue = ?2)
    AND (?8 IS NULL OR job.state IN (SELECT value FROM json_each(?8)))
ORDER BY keyed.id DESC LIMIT ?6

-- step: pending
SELECT ready.id
FROM detent_ready AS ready
CROSS JOIN detent_job AS job ON job.id = ready.id
WHERE ready.id >= ?3 AND ready.id <= ?4 AND ready.id < ?5
    AND (?1 IS NULL OR job.task = ?1) AND (?2 IS NULL OR job.queue = ?2)
ORDER BY ready.id DESC LIMIT ?6

-- step: running
SELECT running.id
FROM detent_running AS running
CROSS JOIN detent_job AS job ON job.id = running.id
WHERE running.id >= ?3 AND running.id <= ?4 AND running.id < ?5
    AND (?1 IS NULL OR job.task = ?1) AND (?2 IS NULL OR job.queue = ?2)
ORDER BY running.id DESC LIMIT ?6

-- step: parked
SELECT parked.id
FROM detent_parked AS parked
CROSS JOIN detent_job AS job ON job.id = parked.id
WHERE parked.id >= ?3 AND parked.id <= ?4 AND parked.id < ?5
    AND (?1 IS NULL OR job.task = ?1) AND (?2 IS NULL OR job.queue = ?2)
    AND CASE parked.reason WHEN 'paused' THEN 'paused' ELSE 'waiting' END
        IN (SELECT value FROM json_each(?7))
ORDER BY parked.id DESC LIMIT ?6

-- step: succeeded
SELECT id FROM detent_outcome
WHERE state = 'succeeded' AND id >= ?3 AND id <= ?4 AND id < ?5
    AND (?1 IS NULL OR task = ?1) AND (?2 IS NULL OR queue = ?2)
ORDER BY id DESC LIMIT ?6

-- step: unsuccessful
-- Through the partial index of what did not succeed, so that a few failures among millions of
-- successes are found at once.
SELECT id FROM detent_outcome INDEXED BY detent_outcome_state
WHERE state <> 'succeeded' AND state IN (SELECT value FROM json_each(?7))
    AND id >= ?3 AND id <= ?4 AND id < ?5
    AND (?1 IS NULL OR task = ?1) AND (?2 IS NULL OR queue = ?2)
ORDER BY id DESC LIMIT ?6
