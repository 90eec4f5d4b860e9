-- The lanes of some queues that have gates, and the first job of each priority: arrays of priority
-- and due time, as JSON.
-- ?1 arrays of the first name that a lane can have and the first that none can, as JSON
-- ?2 only lanes behind this one  ?3 limit  ?4 families of which one lane is enough, as JSON, and
-- those of suspects
WITH RECURSIVE lanes (lane, high) AS (
    -- One step per lane, over any number of jobs.
    SELECT (
            SELECT ready.lane FROM detent_ready AS ready
            WHERE instr(ready.lane, '~') > 0
                AND ready.lane >= json_extract(range.value, '$[0]')
                AND ready.lane > ?2
                AND ready.lane < json_extract(range.value, '$[1]')
            ORDER BY ready.lane
            LIMIT 1
        ),
        json_extract(range.value, '$[1]')
    FROM json_each(?1) AS range
    UNION ALL
    SELECT (
            SELECT ready.lane FROM detent_ready AS ready
            WHERE instr(ready.lane, '~') > 0 AND ready.lane < lanes.high
                -- The sign that comes after all keys of a family.
                AND ready.lane > CASE
                    WHEN substr(lanes.lane, 1, instr(lanes.lane, '#') - 1)
                            IN (SELECT value FROM json_each(?4))
                        AND instr(substr(lanes.lane, instr(lanes.lane, '~') + 1), '~') = 0
                    THEN substr(lanes.lane, 1, instr(lanes.lane, '#') - 1) || '$'
                    ELSE lanes.lane END
            ORDER BY ready.lane
            LIMIT 1
        ),
        lanes.high
    FROM lanes
    WHERE lanes.lane IS NOT NULL
    ORDER BY 1
    LIMIT ?3 + 2 * json_array_length(?1)
), page AS (
    SELECT lane FROM lanes WHERE lane IS NOT NULL
    UNION
    SELECT ready.lane
    FROM json_each(?4) AS asked
    CROSS JOIN detent_ready AS ready
    WHERE substr(ready.lane, 1, instr(ready.lane, '#') - 1)
            || CASE WHEN substr(ready.lane, -2) = '+!' THEN '+!' ELSE '' END = asked.value || '+!'
        AND instr(ready.lane, '~task:') > 0 AND instr(ready.lane, '#') > 0
        AND instr(substr(ready.lane, instr(ready.lane, '~') + 1), '~') = 0
        AND ready.lane > ?2
    ORDER BY lane LIMIT ?3
)
SELECT page.lane, (
        SELECT json_group_array(json_array(head.priority, head.due_at))
        FROM json_each('[0,1,2,3,4]') AS level
        CROSS JOIN detent_ready AS head
            ON head.id = (
                SELECT first.id FROM detent_ready AS first
                WHERE first.lane = page.lane AND first.priority = level.value
                ORDER BY first.due_at, first.id
                LIMIT 1
            )
    ) AS heads
FROM page
ORDER BY page.lane
