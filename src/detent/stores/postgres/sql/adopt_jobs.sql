-- Let jobs go that were parked because a node did not know their task: another one does.
-- $1 tasks that the asking node knows  $2 limit
WITH known AS (
    SELECT parked.id
    FROM detent.detent_parked AS parked
    CROSS JOIN LATERAL (
        SELECT 1 FROM detent.detent_job
        WHERE detent_job.id = parked.id AND detent_job.task = ANY($1::text[])
        OFFSET 0
    ) AS job
    WHERE parked.reason = 'unknown_task'
    ORDER BY parked.id
    LIMIT $2
    FOR UPDATE OF parked SKIP LOCKED
), gone AS (
    DELETE FROM detent.detent_parked WHERE id = ANY (ARRAY(SELECT id FROM known)) RETURNING *
)
INSERT INTO detent.detent_ready (
    id, due_at, attempt, generation, priority, crashes, hooks, lane
)
SELECT id, due_at, attempt, generation, priority, crashes, hooks, lane FROM gone
RETURNING id
