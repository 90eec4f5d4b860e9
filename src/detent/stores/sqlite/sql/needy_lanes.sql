-- The lanes of some queues that ask for capabilities, have no gates, and hold jobs.
-- ?1 arrays of the first name that a lane can have and the first that none can, as JSON
-- ?2 limit
WITH RECURSIVE lanes (lane, high) AS (
    SELECT (
            SELECT ready.lane FROM detent_ready AS ready
            WHERE ready.lane >= json_extract(range.value, '$[0]')
                AND ready.lane < json_extract(range.value, '$[1]')
            ORDER BY ready.lane
            LIMIT 1
        ),
        json_extract(range.value, '$[1]')
    FROM json_each(?1) AS range
    UNION ALL
    -- One step per lane, over any number of jobs; and one over all that differ in their gates only.
    SELECT (
            SELECT ready.lane FROM detent_ready AS ready
            WHERE ready.lane > CASE instr(lanes.lane, '~') WHEN 0 THEN lanes.lane
                    ELSE substr(lanes.lane, 1, instr(lanes.lane, '~') - 1) || char(127) END
                AND ready.lane < lanes.high
            ORDER BY ready.lane
            LIMIT 1
        ),
        lanes.high
    FROM lanes
    WHERE lanes.lane IS NOT NULL
)
SELECT lane FROM lanes WHERE lane IS NOT NULL AND instr(lane, '~') = 0 ORDER BY lane LIMIT ?2
