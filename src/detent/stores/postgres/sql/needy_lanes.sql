-- The lanes of some queues that ask for capabilities, have no gates, and hold jobs.
-- $1 queues  $2 limit
WITH RECURSIVE ranges AS (
    -- All these lanes begin with the name of their queue and a plus sign. By bytes, whatever the
    -- order of letters is in this database.
    SELECT queue || '+' AS low, queue || ',' AS high
    FROM unnest($1::text[]) AS asked (queue)
), lanes AS (
    -- One step per lane, over any number of jobs.
    SELECT first.lane, ranges.high
    FROM ranges
    CROSS JOIN LATERAL (
        SELECT ready.lane
        FROM detent.detent_ready AS ready
        WHERE strpos(ready.lane, '+') > 0
            AND strpos(ready.lane, '~') = 0
            AND ready.lane COLLATE "C" >= ranges.low COLLATE "C"
            AND ready.lane COLLATE "C" < ranges.high COLLATE "C"
        ORDER BY ready.lane COLLATE "C"
        LIMIT 1
    ) AS first
    UNION ALL
    SELECT following.lane, lanes.high
    FROM lanes
    CROSS JOIN LATERAL (
        SELECT ready.lane
        FROM detent.detent_ready AS ready
        WHERE strpos(ready.lane, '+') > 0
            AND strpos(ready.lane, '~') = 0
            AND ready.lane COLLATE "C" > lanes.lane COLLATE "C"
            AND ready.lane COLLATE "C" < lanes.high COLLATE "C"
        ORDER BY ready.lane COLLATE "C"
        LIMIT 1
    ) AS following
), page AS (
    -- The limit ends the walk.
    SELECT lane FROM lanes LIMIT $2
)
SELECT lane FROM page ORDER BY lane COLLATE "C"
