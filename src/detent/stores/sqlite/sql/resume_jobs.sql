-- Put paused jobs back in their old place.
-- ?1 ids in one blob  ?2 generation or NULL for any

-- step: moved
SELECT CAST(json_group_array(json_array(
    hex(parked.id), parked.hooks, parked.lane, parked.priority, parked.due_at
)) AS BLOB)
FROM detent_ids(?1) AS wanted
CROSS JOIN detent_parked AS parked ON parked.id = wanted.id
WHERE parked.reason = 'paused' AND (?2 IS NULL OR parked.generation = ?2)

-- step: ready
INSERT INTO detent_ready (
    id, due_at, attempt, generation, priority, crashes, hooks, lane
)
SELECT parked.id, parked.due_at, parked.attempt, parked.generation, parked.priority,
    parked.crashes, parked.hooks, parked.lane
FROM detent_ids(?1) AS wanted
CROSS JOIN detent_parked AS parked ON parked.id = wanted.id
WHERE parked.reason = 'paused' AND (?2 IS NULL OR parked.generation = ?2)

-- step: gone
DELETE FROM detent_parked
WHERE id IN (SELECT id FROM detent_ids(?1)) AND reason = 'paused'
    AND (?2 IS NULL OR generation = ?2)
