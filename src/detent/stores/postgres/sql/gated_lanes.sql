-- The lanes of some queues that have gates, and how long until the first job of each is due.
-- $1 queues  $2 only lanes behind this one  $3 limit
WITH RECURSIVE clock AS MATERIALIZED (
    SELECT clock_timestamp() AS now
), ranges AS (
    -- All lanes of a queue begin with its name and one of two signs. By bytes, whatever the order
    -- of letters is in this database.
    SELECT queue || sign.low AS low, queue || sign.high AS high
    FROM unnest($1::text[]) AS asked (queue)
    CROSS JOIN (VALUES ('+', ','), ('~', chr(127))) AS sign (low, high)
), lanes AS (
    -- One step per lane, over any number of jobs.
    SELECT first.lane, ranges.high
    FROM ranges
    CROSS JOIN LATERAL (
        SELECT ready.lane
        FROM detent.detent_ready AS ready
        WHERE strpos(ready.lane, '~') > 0
            AND ready.lane COLLATE "C" >= ranges.low COLLATE "C"
            AND ready.lane COLLATE "C" > $2::text COLLATE "C"
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
        WHERE strpos(ready.lane, '~') > 0
            AND ready.lane COLLATE "C" > lanes.lane COLLATE "C"
            AND ready.lane COLLATE "C" < lanes.high COLLATE "C"
        ORDER BY ready.lane COLLATE "C"
        LIMIT 1
    ) AS following
), page AS (
    -- Steps of several queues are taken in turn; the limit ends the walk.
    SELECT lane FROM lanes LIMIT $3
)
SELECT page.lane, greatest(date_part('epoch', head.due_at - clock.now), 0) AS due_in
FROM page
CROSS JOIN clock
CROSS JOIN LATERAL (
    SELECT min(first.due_at) AS due_at
    FROM generate_series(0, 4) AS level (priority)
    CROSS JOIN LATERAL (
        SELECT ready.due_at
        FROM detent.detent_ready AS ready
        WHERE ready.lane = page.lane AND ready.priority = level.priority::smallint
        ORDER BY ready.due_at, ready.id
        LIMIT 1
    ) AS first
) AS head
WHERE head.due_at IS NOT NULL
ORDER BY page.lane COLLATE "C"
