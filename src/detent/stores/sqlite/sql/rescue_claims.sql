-- End claims of dead nodes: back to their old place, canceled, or failed. What is to be on record
-- is written to the attempts.

-- step: said
-- ?1 ids in one blob  ?2 arrays of fence, task, queue, state, crashes, lane, reason, and where the
-- evidence begins in ?3 and how long it is, kind of the attempt or NULL, alone, as JSON  ?3 the evidence in one blob
INSERT INTO temp.detent_end (
    id, fence, node, claimed_at, due_at, attempt, generation, priority, crashes, hooks, lane,
    task, queue, lasted, state, charged, reason, error, kind, alone
)
SELECT running.id, running.fence, running.node, running.claimed_at, running.due_at,
    running.attempt, running.generation, running.priority, json_extract(said.value, '$[4]'),
    running.hooks, json_extract(said.value, '$[5]'),
    json_extract(said.value, '$[1]'), json_extract(said.value, '$[2]'), 0.0,
    json_extract(said.value, '$[3]'), 0, json_extract(said.value, '$[6]'),
    substr(?3, json_extract(said.value, '$[7]'), json_extract(said.value, '$[8]')),
    json_extract(said.value, '$[9]'), json_extract(said.value, '$[10]')
FROM json_each(?2) AS said
CROSS JOIN detent_running AS running ON running.id = substr(?1, said.key * 16 + 1, 16)
WHERE running.fence = json_extract(said.value, '$[0]')

-- step: outcome
-- ?1 now
INSERT INTO detent_outcome (
    id, generation, attempt, fence, finished_at, started_at, duration, node, state, task, queue,
    error, reason
)
SELECT id, generation, attempt, fence, ?1, claimed_at, (?1 - claimed_at) / 1e6, node, state, task,
    queue, CASE WHEN state = 'failed' THEN error END, reason
FROM temp.detent_end
WHERE state <> 'pending'

-- step: tried
-- ?1 now
INSERT INTO detent_attempt (
    id, generation, number, kind, node, started_at, ended_at, error, alone
)
SELECT id, generation, attempt, kind, node, claimed_at, ?1, error, alone
FROM temp.detent_end
WHERE kind IS NOT NULL

-- step: rescued
SELECT CAST(json_group_array(json_array(
    hex(id), task, queue, hex(node), state, crashes, attempt, lane, priority, due_at
)) AS BLOB)
FROM temp.detent_end
