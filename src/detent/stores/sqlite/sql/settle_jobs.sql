-- Write any end of claims: outcomes, returns to the queue, parking, and what the attempt came to.

-- step: said
-- Only claims that are valid go any further.
-- ?1 node  ?2 ids in one blob  ?3 arrays of fence, task, queue, seconds run, state that follows,
-- delay in microseconds or null, whether the attempt is charged (0 or 1), kind of attempt to
-- record or null, reason, and where result and error begin in ?4 and how long they are (null for
-- none), as JSON  ?4 results and errors in one blob
INSERT INTO temp.detent_end (
    id, fence, node, claimed_at, due_at, attempt, generation, priority, crashes, hooks, lane,
    task, queue, lasted, state, delay, charged, kind, reason, result, error
)
SELECT running.id, running.fence, running.node, running.claimed_at, running.due_at,
    running.attempt, running.generation, running.priority, running.crashes, running.hooks, running.lane,
    json_extract(said.value, '$[1]'), json_extract(said.value, '$[2]'),
    json_extract(said.value, '$[3]'), json_extract(said.value, '$[4]'),
    json_extract(said.value, '$[5]'), json_extract(said.value, '$[6]'),
    json_extract(said.value, '$[7]'), json_extract(said.value, '$[8]'),
    substr(?4, json_extract(said.value, '$[9]'), json_extract(said.value, '$[10]')),
    substr(?4, json_extract(said.value, '$[11]'), json_extract(said.value, '$[12]'))
FROM json_each(?3) AS said
CROSS JOIN detent_running AS running ON running.id = substr(?2, said.key * 16 + 1, 16)
WHERE running.fence = json_extract(said.value, '$[0]') AND running.node = ?1
ON CONFLICT (id) DO NOTHING

-- step: held
-- A job that goes back behind an ordered gate holds it: see detent_hold. While it still stands among
-- the claims.
INSERT INTO detent_hold (gate, job)
SELECT running.task_gate, running.id
FROM temp.detent_end AS ended
CROSS JOIN detent_running AS running ON running.id = ended.id AND running.task_gate IS NOT NULL
CROSS JOIN detent_limit AS known
    ON known.name = CASE WHEN instr(running.task_gate, '#')
        THEN substr(running.task_gate, 1, instr(running.task_gate, '#'))
        ELSE running.task_gate END
    AND known.ordered
WHERE ended.state IN ('pending', 'waiting')
ON CONFLICT (gate) DO UPDATE SET job = excluded.job

-- step: gone
DELETE FROM detent_running WHERE id IN (SELECT id FROM temp.detent_end)

-- step: outcome
-- ?1 now
INSERT INTO detent_outcome (
    id, generation, attempt, fence, finished_at, started_at, duration, node, state, task, queue,
    result, error, reason
)
SELECT id, generation, attempt, fence, ?1, ?1 - CAST(lasted * 1000000 AS INTEGER), lasted, node,
    state, task, queue, result, error, reason
FROM temp.detent_end
WHERE state NOT IN ('pending', 'waiting')

-- step: ready
-- Without a delay the job returns to its old place, not behind the backlog.
-- ?1 now
INSERT INTO detent_ready (
    id, due_at, attempt, generation, priority, crashes, hooks, lane
)
SELECT id, coalesce(?1 + delay, due_at), attempt + charged, generation, priority, crashes, hooks,
    lane
FROM temp.detent_end
WHERE state = 'pending'

-- step: parked
-- ?1 now
INSERT INTO detent_parked (
    id, reason, parked_at, due_at, attempt, generation, priority, crashes, hooks, lane
)
SELECT id, coalesce(reason, 'waiting'), ?1, coalesce(?1 + delay, due_at), attempt + charged,
    generation, priority, crashes, hooks, lane
FROM temp.detent_end
WHERE state = 'waiting'

-- step: tried
-- ?1 now
INSERT INTO detent_attempt (id, generation, number, kind, node, started_at, ended_at, error)
SELECT id, generation, attempt, kind, node, ?1 - CAST(lasted * 1000000 AS INTEGER), ?1, error
FROM temp.detent_end
WHERE kind IS NOT NULL

-- step: unsignaled
-- A request to cancel outlives the claim: whoever runs the job next will hear of it. One that came
-- too late stays with the outcome.
DELETE FROM detent_signal
WHERE id IN (SELECT id FROM temp.detent_end WHERE state = 'canceled')

-- step: unprogressed
DELETE FROM detent_progress WHERE id IN (SELECT id FROM temp.detent_end)

-- step: settled
SELECT CAST(json_group_array(json_array(hex(id), state, lane, priority, due_at, delay, hooks)) AS BLOB)
FROM temp.detent_end

-- step: clear
DELETE FROM temp.detent_end
