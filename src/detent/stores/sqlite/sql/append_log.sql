-- Append log lines of running jobs.
-- ?1 incarnation  ?2 ids in one blob  ?3 arrays of fence, attempt, level and message as JSON
-- ?4 now
INSERT INTO detent_log (id, at, attempt, level, message)
SELECT running.id, ?4, json_extract(said.value, '$[1]'), json_extract(said.value, '$[2]'),
    json_extract(said.value, '$[3]')
FROM json_each(?3) AS said
CROSS JOIN detent_running AS running ON running.id = substr(?2, said.key * 16 + 1, 16)
WHERE running.fence = json_extract(said.value, '$[0]') AND running.node = ?1
ORDER BY said.key
