-- Ask running jobs to stop. Their nodes find the message; the first request stands.
-- ?1 ids in one blob  ?2 generation or NULL for any

-- step: asked
-- Those asked for the first time say so, so that a page of requests comes to an end.
SELECT CAST(json_group_array(json_array(
    hex(running.id), hex(running.node), NOT EXISTS (
        SELECT 1 FROM detent_signal WHERE id = running.id AND kind = 'cancel'
    )
)) AS BLOB)
FROM detent_ids(?1) AS wanted
CROSS JOIN detent_running AS running ON running.id = wanted.id
WHERE ?2 IS NULL OR running.generation = ?2

-- step: signal
-- ?3 now  ?4 reason
INSERT INTO detent_signal (id, kind, reason, created_at)
SELECT running.id, 'cancel', ?4, ?3
FROM detent_ids(?1) AS wanted
CROSS JOIN detent_running AS running ON running.id = wanted.id
WHERE ?2 IS NULL OR running.generation = ?2
ON CONFLICT (id, kind) DO NOTHING
