-- Take pending jobs out of the way of claims until they are resumed.
-- $1 ids  $2 generation or NULL for any
WITH gone AS (
    DELETE FROM detent.detent_ready
    WHERE id = ANY($1::uuid[]) AND ($2::integer IS NULL OR generation = $2)
    RETURNING *
)
INSERT INTO detent.detent_parked (
    id, reason, parked_at, due_at, attempt, generation, priority, crashes, hooks, lane
)
SELECT id, 'paused', clock_timestamp(), due_at, attempt, generation, priority, crashes, hooks, lane
FROM gone
RETURNING id, hooks
