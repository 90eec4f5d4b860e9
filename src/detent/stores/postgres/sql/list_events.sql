-- Events that wait, the oldest first, for people.
-- $1 sink or NULL for any  $2 whether they are undeliverable, or NULL for both  $3 limit
SELECT id, sink, kind, job, task, queue, generation, attempt, at, duration, node, reason, error,
    alert, tries, created_at, due_at, problem, parked_at
FROM detent.detent_event
WHERE id > 0 AND ($1::text IS NULL OR sink = $1)
    AND ($2::boolean IS NULL OR (parked_at IS NOT NULL) = $2)
ORDER BY id
LIMIT $3
