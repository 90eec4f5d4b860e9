-- Put paused jobs back in their old place.
-- $1 ids  $2 generation or NULL for any
WITH gone AS (
    DELETE FROM detent.detent_parked
    WHERE id = ANY($1::uuid[]) AND reason = 'paused' AND ($2::integer IS NULL OR generation = $2)
    RETURNING *
)
INSERT INTO detent.detent_ready (
    id, due_at, attempt, generation, priority, crashes, hooks, lane
)
SELECT id, due_at, attempt, generation, priority, crashes, hooks, lane FROM gone
RETURNING id, hooks, lane, priority, due_at
