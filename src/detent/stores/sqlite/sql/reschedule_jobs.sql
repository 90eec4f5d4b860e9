-- Give pending and paused jobs another due time. By the page, those that have it already are
-- left alone, so that pages come to an end.
-- ?1 ids in one blob  ?2 generation or NULL for any  ?3 the new due time  ?4 that time when the
-- caller named it, or NULL when it is a delay

-- step: moved
SELECT CAST(json_group_array(json_array(hex(id), hooks, lane, priority, ?3)) AS BLOB)
FROM (
    SELECT ready.id, ready.hooks, ready.lane, ready.priority
    FROM detent_ids(?1) AS wanted
    CROSS JOIN detent_ready AS ready ON ready.id = wanted.id
    WHERE (?2 IS NULL OR ready.generation = ?2)
        AND (?2 IS NOT NULL OR ready.due_at IS NOT ?4)
    UNION ALL
    SELECT parked.id, parked.hooks, parked.lane, parked.priority
    FROM detent_ids(?1) AS wanted
    CROSS JOIN detent_parked AS parked ON parked.id = wanted.id
    WHERE parked.reason = 'paused' AND (?2 IS NULL OR parked.generation = ?2)
        AND (?2 IS NOT NULL OR parked.due_at IS NOT ?4)
)

-- step: ready
UPDATE detent_ready SET due_at = ?3
WHERE id IN (SELECT id FROM detent_ids(?1)) AND (?2 IS NULL OR generation = ?2)
    AND (?2 IS NOT NULL OR due_at IS NOT ?4)

-- step: parked
UPDATE detent_parked SET due_at = ?3
WHERE id IN (SELECT id FROM detent_ids(?1)) AND reason = 'paused'
    AND (?2 IS NULL OR generation = ?2) AND (?2 IS NOT NULL OR due_at IS NOT ?4)
