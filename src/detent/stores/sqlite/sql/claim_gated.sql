-- Move the best due jobs of lanes with gates to running; the rest is as in claim_jobs.

-- step: due
-- Which of some lanes have due jobs that the node may take? Asked without a lock first.
-- ?1 node  ?2 arrays of lane and queue as JSON  ?3 now
SELECT CAST(json_group_array(scan.key) AS BLOB)
FROM json_each(?2) AS scan
WHERE EXISTS (
        SELECT 1 FROM detent_node
        WHERE incarnation = ?1 AND state = 'active' AND lease_until > ?3
    )
    AND NOT EXISTS (
        SELECT 1 FROM detent_queue
        WHERE name = json_extract(scan.value, '$[1]') AND paused_at IS NOT NULL
    )
    AND EXISTS (
        SELECT 1 FROM detent_ready
        WHERE lane = json_extract(scan.value, '$[0]') AND priority IN (0, 1, 2, 3, 4)
            AND due_at <= ?3
    )

-- step: alive
-- ?1 node  ?2 now
SELECT EXISTS (
    SELECT 1 FROM detent_node WHERE incarnation = ?1 AND state = 'active' AND lease_until > ?2
)

-- step: urgent
-- Are jobs of a lane due, and urgent enough?
-- ?1 lane  ?2 now  ?3 boost interval in microseconds, 0 = off  ?4 the lowest aged priority
SELECT EXISTS (
    SELECT 1 FROM detent_ready
    WHERE lane = ?1 AND priority IN (0, 1, 2, 3, 4) AND due_at <= ?2
        AND priority + CASE WHEN ?3 > 0 THEN (?2 - due_at) / ?3 ELSE 0 END >= ?4
)

-- step: gates
-- How far gates are open: their limits, what is used of them, what is left of their rates.
-- ?1 arrays of gate, limit, and place among the limits of a running job, as JSON
SELECT CAST(json_group_array(json_array(
    json_extract(asked.value, '$[0]'), known.concurrency, known.rate_count, known.rate_per,
    known.burst, known.algorithm,
    CASE json_extract(asked.value, '$[2]')
        WHEN 0 THEN (
            SELECT sum(coalesce(weight, 1)) FROM detent_running
            WHERE resource_gate = json_extract(asked.value, '$[0]'))
        WHEN 1 THEN (
            SELECT count(*) FROM detent_running
            WHERE task_gate = json_extract(asked.value, '$[0]'))
        WHEN 2 THEN (
            SELECT count(*) FROM detent_running
            WHERE queue_gate = json_extract(asked.value, '$[0]'))
    END,
    (SELECT json_array(tokens, at) FROM detent_bucket
     WHERE gate = json_extract(asked.value, '$[0]')),
    (SELECT json_group_array(json_array(at, number)) FROM detent_pass
     WHERE gate = json_extract(asked.value, '$[0]')),
    known.ordered,
    -- The job that was put back behind an ordered gate, where it is pending, and when it is due.
    CASE WHEN known.ordered THEN (
        SELECT json_array(hex(hold.job), ready.lane, ready.due_at)
        FROM detent_hold AS hold
        LEFT JOIN detent_ready AS ready ON ready.id = hold.job
        WHERE hold.gate = json_extract(asked.value, '$[0]')
            AND (ready.id IS NOT NULL
                OR EXISTS (SELECT 1 FROM detent_parked WHERE detent_parked.id = hold.job))
    ) END
)) AS BLOB)
FROM json_each(?1) AS asked
CROSS JOIN detent_limit AS known ON known.name = json_extract(asked.value, '$[1]')

-- step: holder
-- Take the job that holds an ordered gate, before all others.
-- ?1 fence  ?2 id
INSERT INTO temp.detent_taken (
    fence, id, due_at, attempt, generation, priority, crashes, hooks, lane
)
SELECT ?1, id, due_at, attempt, generation, priority, crashes, hooks, lane
FROM detent_ready WHERE id = ?2

-- step: limited
-- At which gates these jobs count while they run, if at any.
-- ?1 fence  ?2 lane  ?3 gate of the resource, ?4 of the task, ?5 of the queue, each or NULL
-- ?6 how much of the resource each takes
UPDATE temp.detent_taken
SET hooks = CASE WHEN coalesce(?3, ?4, ?5) IS NULL THEN hooks & ~2 ELSE hooks | 2 END,
    resource_gate = ?3, task_gate = ?4, queue_gate = ?5, weight = ?6
WHERE fence = ?1 AND lane = ?2

-- step: bucket
-- ?1 gate  ?2 tokens  ?3 now  ?4 when it is full again
INSERT INTO detent_bucket (gate, tokens, at, full_at) VALUES (?1, ?2, ?3, ?4)
ON CONFLICT (gate) DO UPDATE
SET tokens = excluded.tokens, at = excluded.at, full_at = excluded.full_at

-- step: forget
-- ?1 gate  ?2 moment
DELETE FROM detent_pass WHERE gate = ?1 AND at <= ?2

-- step: pass
-- ?1 gate  ?2 now  ?3 number  ?4 until when it counts
INSERT INTO detent_pass (gate, at, number, until) VALUES (?1, ?2, ?3, ?4)

-- step: next
-- The first job of each priority of each lane: arrays of priority and due time.
-- ?1 lanes as JSON
SELECT CAST(json_group_array((
    SELECT json_group_array(json_array(head.priority, head.due_at))
    FROM json_each('[0,1,2,3,4]') AS level
    CROSS JOIN detent_ready AS head
        ON head.id = (
            SELECT first.id FROM detent_ready AS first
            WHERE first.lane = scan.value AND first.priority = level.value
            ORDER BY first.due_at, first.id
            LIMIT 1
        )
)) AS BLOB)
FROM json_each(?1) AS scan

-- step: shares
-- The weights that keys of fair shares were given.
-- ?1 gates as JSON
SELECT CAST(json_group_array(json_array(known.name, known.weight)) AS BLOB)
FROM json_each(?1) AS asked
CROSS JOIN detent_limit AS known ON known.name = asked.value

-- step: paused
-- Which of some queues are paused?
-- ?1 queues as JSON
SELECT CAST(json_group_array(queue.name) AS BLOB)
FROM json_each(?1) AS asked
CROSS JOIN detent_queue AS queue ON queue.name = asked.value AND queue.paused_at IS NOT NULL
