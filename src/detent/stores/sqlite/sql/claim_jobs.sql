-- Move the best due jobs from ready to running in a node's name.

-- step: due
-- Which of some lanes have due jobs that the node may take? Asked without a lock first: then a
-- node that finds nothing costs the others nothing, and nobody has to wait to hear so.
-- ?1 node  ?2 arrays of lane and queue as JSON  ?3 now
SELECT CAST(json_group_array(scan.key) AS BLOB)
FROM json_each(?2) AS scan
WHERE EXISTS (
        -- A node that is dead or has run out of time cannot claim.
        SELECT 1 FROM detent_node
        WHERE incarnation = ?1 AND state = 'active' AND lease_until > ?3
    )
    AND NOT EXISTS (
        SELECT 1 FROM detent_queue
        WHERE name = json_extract(scan.value, '$[1]') AND (paused_at IS NOT NULL OR limited)
    )
    AND EXISTS (
        SELECT 1 FROM detent_ready
        WHERE lane = json_extract(scan.value, '$[0]') AND priority IN (0, 1, 2, 3, 4)
            AND due_at <= ?3
    )

-- step: fence
SELECT value + 1 FROM detent_fence WHERE name = 'claim'

-- step: first
-- The number of the first job that is taken next.
SELECT coalesce(max(number), 0) + 1 FROM temp.detent_taken

-- step: heads
-- Within one priority the order is the due time, so the head of each priority by index, merged,
-- is the exact order with ageing at any length of the queue.
-- ?1 fence  ?2 lane  ?3 now  ?4 room  ?5 boost interval in microseconds, 0 = off
-- ?6 due time  ?7 id where the scan of priority 0 begins, and so on to ?14  ?15 for priority 4
-- ?16 node  ?17 queue  ?18 whether its limit was asked (1) or not (0)
-- ?19 the lowest aged priority to be taken
INSERT INTO temp.detent_taken (
    fence, id, due_at, attempt, generation, priority, crashes, hooks, lane
)
SELECT ?1, id, due_at, attempt, generation, priority, crashes, hooks, lane
FROM (
    SELECT * FROM (
        SELECT * FROM detent_ready
        WHERE lane = ?2 AND priority = 0 AND (due_at, id) >= (?6, ?7) AND due_at <= ?3
        ORDER BY due_at, id LIMIT ?4
    )
    UNION ALL
    SELECT * FROM (
        SELECT * FROM detent_ready
        WHERE lane = ?2 AND priority = 1 AND (due_at, id) >= (?8, ?9) AND due_at <= ?3
        ORDER BY due_at, id LIMIT ?4
    )
    UNION ALL
    SELECT * FROM (
        SELECT * FROM detent_ready
        WHERE lane = ?2 AND priority = 2 AND (due_at, id) >= (?10, ?11) AND due_at <= ?3
        ORDER BY due_at, id LIMIT ?4
    )
    UNION ALL
    SELECT * FROM (
        SELECT * FROM detent_ready
        WHERE lane = ?2 AND priority = 3 AND (due_at, id) >= (?12, ?13) AND due_at <= ?3
        ORDER BY due_at, id LIMIT ?4
    )
    UNION ALL
    SELECT * FROM (
        SELECT * FROM detent_ready
        WHERE lane = ?2 AND priority = 4 AND (due_at, id) >= (?14, ?15) AND due_at <= ?3
        ORDER BY due_at, id LIMIT ?4
    )
)
-- Both may have changed since it was asked whether something is due.
WHERE EXISTS (
        SELECT 1 FROM detent_node
        WHERE incarnation = ?16 AND state = 'active' AND lease_until > ?3
    )
    AND NOT EXISTS (
        SELECT 1 FROM detent_queue
        WHERE name = ?17 AND (paused_at IS NOT NULL OR limited > ?18)
    )
    AND priority + CASE WHEN ?5 > 0 THEN (?3 - due_at) / ?5 ELSE 0 END >= ?19
ORDER BY priority + CASE WHEN ?5 > 0 THEN (?3 - due_at) / ?5 ELSE 0 END DESC, due_at, id
LIMIT ?4

-- step: rest
-- Of the lanes of one queue each gives as many as there is room for: leave all but the best of them.
-- ?1 number of the first job of this queue  ?2 now  ?3 boost interval in microseconds, 0 = off
-- ?4 room
DELETE FROM temp.detent_taken
WHERE number IN (
    SELECT number FROM temp.detent_taken
    WHERE number >= ?1
    ORDER BY priority + CASE WHEN ?3 > 0 THEN (?2 - due_at) / ?3 ELSE 0 END DESC, due_at, id
    LIMIT -1 OFFSET ?4
)

-- step: fenced
-- One fence for the whole claim: with the id it is as unique.
-- ?1 fence
UPDATE detent_fence SET value = ?1 WHERE name = 'claim'

-- step: running
-- ?1 fence  ?2 node  ?3 now
INSERT INTO detent_running (
    id, fence, node, claimed_at, due_at, attempt, generation, priority, crashes, hooks, lane,
    resource_gate, task_gate, queue_gate, weight
)
SELECT id, fence, ?2, ?3, due_at, attempt, generation, priority, crashes, hooks, lane,
    resource_gate, task_gate, queue_gate, weight
FROM temp.detent_taken WHERE fence = ?1

-- step: gone
-- ?1 fence
DELETE FROM detent_ready WHERE id IN (SELECT id FROM temp.detent_taken WHERE fence = ?1)

-- step: taken
-- What is needed to run, read when the claim is durable. As one value, since a thread that reads
-- row by row has to win Python's lock back for each of them.
-- ?1 fence  ?2 largest payload to return  ?3 now  ?4 boost interval in microseconds, 0 = off
SELECT CAST(json_group_array(json_array(
    hex(id), fence, task, lane, priority, due_at, attempt, crashes, generation, hooks, args, codec,
    options, params, json(tags)
)) AS BLOB)
FROM (
    SELECT taken.*, job.task, job.codec, job.tags,
        -- The length of a stored value is known without reading it.
        CASE WHEN length(job.args) <= ?2 THEN hex(job.args) END AS args,
        CASE WHEN job.options IS NOT NULL THEN hex(job.options) END AS options,
        CASE WHEN job.params IS NOT NULL THEN hex(job.params) END AS params
    FROM temp.detent_taken AS taken
    CROSS JOIN detent_job AS job ON job.id = taken.id
    WHERE taken.fence = ?1
    ORDER BY taken.priority + CASE WHEN ?4 > 0 THEN (?3 - taken.due_at) / ?4 ELSE 0 END DESC,
        taken.due_at, taken.id
)

-- step: clear
-- ?1 fence
DELETE FROM temp.detent_taken WHERE fence = ?1
