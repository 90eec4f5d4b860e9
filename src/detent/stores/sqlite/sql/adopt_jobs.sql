-- Let jobs go that were parked because a node did not know their task.

-- step: any
-- Asked without a lock: nearly always there are none.
SELECT EXISTS (SELECT 1 FROM detent_parked WHERE reason = 'unknown_task')

-- step: ready
-- ?1 tasks that the asking node knows as JSON, or NULL for all  ?2 limit
INSERT INTO detent_ready (
    id, due_at, attempt, generation, priority, crashes, hooks, lane
)
SELECT parked.id, parked.due_at, parked.attempt, parked.generation, parked.priority,
    parked.crashes, parked.hooks, parked.lane
FROM detent_parked AS parked
CROSS JOIN detent_job AS job ON job.id = parked.id
WHERE parked.reason = 'unknown_task'
    AND (?1 IS NULL OR job.task IN (SELECT value FROM json_each(?1)))
ORDER BY parked.id
LIMIT ?2

-- step: gone
-- The same ones, since nothing else is written in between.
DELETE FROM detent_parked
WHERE id IN (
    SELECT parked.id
    FROM detent_parked AS parked
    CROSS JOIN detent_job AS job ON job.id = parked.id
    WHERE parked.reason = 'unknown_task'
        AND (?1 IS NULL OR job.task IN (SELECT value FROM json_each(?1)))
    ORDER BY parked.id
    LIMIT ?2
)
