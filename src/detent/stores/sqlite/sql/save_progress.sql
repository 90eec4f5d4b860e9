-- Keep how far running jobs are.
-- ?1 incarnation  ?2 ids in one blob  ?3 arrays of fence, fraction and message as JSON  ?4 now
INSERT INTO detent_progress (id, fraction, message, updated_at)
SELECT running.id, json_extract(said.value, '$[1]'), json_extract(said.value, '$[2]'), ?4
FROM json_each(?3) AS said
CROSS JOIN detent_running AS running ON running.id = substr(?2, said.key * 16 + 1, 16)
WHERE running.fence = json_extract(said.value, '$[0]') AND running.node = ?1
ON CONFLICT (id) DO UPDATE
SET fraction = excluded.fraction, message = excluded.message, updated_at = excluded.updated_at
