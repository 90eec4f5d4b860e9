-- Move the best due jobs of a family to running, of each key no more than its limit lets in; the rest
-- is as in claim_gated.

-- step: rule
-- What keeps the family as a whole: its limit, and its queue.
-- ?1 limit  ?2 queue
SELECT CAST(json_array(
    (SELECT json_array(concurrency, rate_count, ordered) FROM detent_limit WHERE name = ?1),
    (SELECT json_array(limited, paused_at) FROM detent_queue WHERE name = ?2)
) AS BLOB)

-- step: heads
-- The first of each priority, merged: as far as this goes, nothing comes before any of them.
-- ?1 family  ?2 now  ?3 how many  ?4 boost interval in microseconds, 0 = off
-- ?5 due time  ?6 id where the scan of priority 0 begins, and so on to ?13  ?14 for priority 4
SELECT CAST(json_group_array(json_array(hex(id), lane, priority, due_at, age)) AS BLOB)
FROM (
    SELECT id, lane, priority, due_at,
        priority + CASE WHEN ?4 > 0 THEN (?2 - due_at) / ?4 ELSE 0 END AS age
    FROM (
    SELECT * FROM (
        SELECT id, lane, priority, due_at FROM detent_ready
        WHERE substr(lane, 1, instr(lane, '#') - 1)
                || CASE WHEN substr(lane, -2) = '+!' THEN '+!' ELSE '' END = ?1
            AND instr(lane, '~task:') > 0 AND instr(lane, '#') > 0
            AND instr(substr(lane, instr(lane, '~') + 1), '~') = 0
            AND priority = 0 AND (due_at, id) >= (?5, ?6) AND due_at <= ?2
        ORDER BY due_at, id LIMIT ?3
    )
    UNION ALL
    SELECT * FROM (
        SELECT id, lane, priority, due_at FROM detent_ready
        WHERE substr(lane, 1, instr(lane, '#') - 1)
                || CASE WHEN substr(lane, -2) = '+!' THEN '+!' ELSE '' END = ?1
            AND instr(lane, '~task:') > 0 AND instr(lane, '#') > 0
            AND instr(substr(lane, instr(lane, '~') + 1), '~') = 0
            AND priority = 1 AND (due_at, id) >= (?7, ?8) AND due_at <= ?2
        ORDER BY due_at, id LIMIT ?3
    )
    UNION ALL
    SELECT * FROM (
        SELECT id, lane, priority, due_at FROM detent_ready
        WHERE substr(lane, 1, instr(lane, '#') - 1)
                || CASE WHEN substr(lane, -2) = '+!' THEN '+!' ELSE '' END = ?1
            AND instr(lane, '~task:') > 0 AND instr(lane, '#') > 0
            AND instr(substr(lane, instr(lane, '~') + 1), '~') = 0
            AND priority = 2 AND (due_at, id) >= (?9, ?10) AND due_at <= ?2
        ORDER BY due_at, id LIMIT ?3
    )
    UNION ALL
    SELECT * FROM (
        SELECT id, lane, priority, due_at FROM detent_ready
        WHERE substr(lane, 1, instr(lane, '#') - 1)
                || CASE WHEN substr(lane, -2) = '+!' THEN '+!' ELSE '' END = ?1
            AND instr(lane, '~task:') > 0 AND instr(lane, '#') > 0
            AND instr(substr(lane, instr(lane, '~') + 1), '~') = 0
            AND priority = 3 AND (due_at, id) >= (?11, ?12) AND due_at <= ?2
        ORDER BY due_at, id LIMIT ?3
    )
    UNION ALL
    SELECT * FROM (
        SELECT id, lane, priority, due_at FROM detent_ready
        WHERE substr(lane, 1, instr(lane, '#') - 1)
                || CASE WHEN substr(lane, -2) = '+!' THEN '+!' ELSE '' END = ?1
            AND instr(lane, '~task:') > 0 AND instr(lane, '#') > 0
            AND instr(substr(lane, instr(lane, '~') + 1), '~') = 0
            AND priority = 4 AND (due_at, id) >= (?13, ?14) AND due_at <= ?2
        ORDER BY due_at, id LIMIT ?3
    )
    )
    ORDER BY age DESC, due_at, id
    LIMIT ?3
)

-- step: keys
-- How many run of each key; and which job was put back behind it, where it is, and when it is due.
-- ?1 gates as JSON  ?2 whether they keep an order
SELECT CAST(json_group_array(json_array(
    (SELECT count(*) FROM detent_running WHERE task_gate = asked.value),
    CASE WHEN ?2 THEN (
        SELECT json_array(hex(hold.job), ready.lane, ready.due_at)
        FROM detent_hold AS hold
        LEFT JOIN detent_ready AS ready ON ready.id = hold.job
        WHERE hold.gate = asked.value
            AND (ready.id IS NOT NULL
                OR EXISTS (SELECT 1 FROM detent_parked WHERE detent_parked.id = hold.job))
    ) END
)) AS BLOB)
FROM json_each(?1) AS asked

-- step: take
-- ?1 fence  ?2 ids  ?3 an array as long, as JSON
INSERT INTO temp.detent_taken (
    fence, id, due_at, attempt, generation, priority, crashes, hooks, lane, task_gate
)
SELECT ?1, ready.id, ready.due_at, ready.attempt, ready.generation, ready.priority, ready.crashes,
    ready.hooks | 2, ready.lane, substr(ready.lane, instr(ready.lane, '~') + 1)
FROM json_each(?3) AS chosen
CROSS JOIN detent_ready AS ready ON ready.id = substr(?2, chosen.key * 16 + 1, 16)

-- step: next
-- When the first job of each priority is due that is not due yet.
-- ?1 family  ?2 now
SELECT CAST(json_group_array(due_at) AS BLOB)
FROM (
    SELECT (
        SELECT due_at FROM detent_ready
        WHERE substr(lane, 1, instr(lane, '#') - 1)
                || CASE WHEN substr(lane, -2) = '+!' THEN '+!' ELSE '' END = ?1
            AND instr(lane, '~task:') > 0 AND instr(lane, '#') > 0
            AND instr(substr(lane, instr(lane, '~') + 1), '~') = 0
            AND priority = level.value AND due_at > ?2
        ORDER BY due_at, id
        LIMIT 1
    ) AS due_at
    FROM json_each('[0,1,2,3,4]') AS level
)
WHERE due_at IS NOT NULL
