-- Take pending jobs out of the way of claims until they are resumed.
-- ?1 ids in one blob  ?2 generation or NULL for any

-- step: moved
SELECT CAST(json_group_array(json_array(
    hex(ready.id), ready.hooks, ready.lane, ready.priority, ready.due_at
)) AS BLOB)
FROM detent_ids(?1) AS wanted
CROSS JOIN detent_ready AS ready ON ready.id = wanted.id
WHERE ?2 IS NULL OR ready.generation = ?2

-- step: parked
-- ?3 now
INSERT INTO detent_parked (
    id, reason, parked_at, due_at, attempt, generation, priority, crashes, hooks, lane
)
SELECT ready.id, 'paused', ?3, ready.due_at, ready.attempt, ready.generation, ready.priority,
    ready.crashes, ready.hooks, ready.lane
FROM detent_ids(?1) AS wanted
CROSS JOIN detent_ready AS ready ON ready.id = wanted.id
WHERE ?2 IS NULL OR ready.generation = ?2

-- step: gone
DELETE FROM detent_ready
WHERE id IN (SELECT id FROM detent_ids(?1)) AND (?2 IS NULL OR generation = ?2)
