-- Put claims back in their old place, uncharged.
-- ?1 incarnation  ?2 ids in one blob  ?3 fences as JSON

-- step: released
SELECT CAST(json_group_array(json_array(
    running.lane, running.priority, running.due_at, hex(running.id)
)) AS BLOB)
FROM json_each(?3) AS said
CROSS JOIN detent_running AS running ON running.id = substr(?2, said.key * 16 + 1, 16)
WHERE running.fence = said.value AND running.node = ?1

-- step: ready
INSERT INTO detent_ready (
    id, due_at, attempt, generation, priority, crashes, hooks, lane
)
SELECT running.id, running.due_at, running.attempt, running.generation, running.priority,
    running.crashes, running.hooks, running.lane
FROM json_each(?3) AS said
CROSS JOIN detent_running AS running ON running.id = substr(?2, said.key * 16 + 1, 16)
WHERE running.fence = said.value AND running.node = ?1
ON CONFLICT (id) DO NOTHING

-- step: gone
DELETE FROM detent_running
WHERE node = ?1
    AND (id, fence) IN (
        SELECT substr(?2, said.key * 16 + 1, 16), said.value FROM json_each(?3) AS said
    )

-- step: unprogressed
-- ?1 ids in one blob
DELETE FROM detent_progress
WHERE id IN (SELECT id FROM detent_ids(?1))
    AND NOT EXISTS (SELECT 1 FROM detent_running WHERE detent_running.id = detent_progress.id)
