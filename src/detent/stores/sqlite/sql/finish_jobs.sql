-- Write successes. A claim that is no longer ours matches nothing and writes nothing.
-- ?1 now  ?2 node  ?3 ids in one blob  ?4 arrays of fence, seconds run, task, queue, and where the
-- result begins in ?5 and how long it is (null for none), as JSON  ?5 the results in one blob

-- step: outcome
INSERT INTO detent_outcome (
    id, generation, attempt, fence, finished_at, started_at, duration, node, state, task, queue,
    result
)
SELECT running.id, running.generation, running.attempt, running.fence, ?1,
    ?1 - CAST(json_extract(said.value, '$[1]') * 1000000 AS INTEGER),
    json_extract(said.value, '$[1]'), running.node, 'succeeded', json_extract(said.value, '$[2]'),
    json_extract(said.value, '$[3]'),
    substr(?5, json_extract(said.value, '$[4]'), json_extract(said.value, '$[5]'))
FROM json_each(?4) AS said
CROSS JOIN detent_running AS running ON running.id = substr(?3, said.key * 16 + 1, 16)
WHERE running.fence = json_extract(said.value, '$[0]') AND running.node = ?2
ON CONFLICT (id) DO NOTHING

-- step: accepted
-- Asked only when some were not: whose claims are still there?
-- ?1 node  ?2 ids in one blob  ?3 the arrays
SELECT CAST(json_group_array(json_array(hex(running.id))) AS BLOB)
FROM json_each(?3) AS said
CROSS JOIN detent_running AS running ON running.id = substr(?2, said.key * 16 + 1, 16)
WHERE running.fence = json_extract(said.value, '$[0]') AND running.node = ?1

-- step: gone
-- ?1 node  ?2 ids in one blob  ?3 the arrays
DELETE FROM detent_running
WHERE node = ?1
    AND (id, fence) IN (
        SELECT substr(?2, said.key * 16 + 1, 16), json_extract(said.value, '$[0]')
        FROM json_each(?3) AS said
    )
