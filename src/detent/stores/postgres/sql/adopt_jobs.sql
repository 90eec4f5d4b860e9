-- Let jobs go that were parked because a node did not know their task: another one does.
-- $1 tasks that the asking node knows  $2 limit
WITH known AS (
    SELECT parked.id
    FROM detent.detent_parked AS parked
    JOIN detent.detent_job AS job ON job.id = parked.id
    WHERE parked.reason = 'unknown_task' AND job.task = ANY($1::text[])
    ORDER BY parked.id
    LIMIT $2
    FOR UPDATE OF parked SKIP LOCKED
), gone AS (
    DELETE FROM detent.detent_parked WHERE id IN (SELECT id FROM known) RETURNING *
)
INSERT INTO detent.detent_ready (
    id, due_at, attempt, generation, priority, crashes, hooks, lane, limits
)
SELECT id, due_at, attempt, generation, priority, crashes, hooks, lane, limits FROM gone
RETURNING id
