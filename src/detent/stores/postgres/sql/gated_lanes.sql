-- The lanes of some queues that have gates, and how long until the first job of each is due.
-- And of the most urgent that is due: its priority, and for how long it has waited.
-- $1 queues  $2 only lanes behind this one  $3 limit  $4 boost interval in seconds, 0 = off
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
SELECT page.lane, greatest(date_part('epoch', head.due_at - clock.now), 0) AS due_in,
    head.priority, date_part('epoch', clock.now - head.since) AS waited
FROM page
CROSS JOIN clock
CROSS JOIN LATERAL (
    SELECT min(first.due_at) AS due_at,
        (array_agg(level.priority ORDER BY first.age DESC, first.due_at)
            FILTER (WHERE first.due_at <= clock.now))[1] AS priority,
        (array_agg(first.due_at ORDER BY first.age DESC, first.due_at)
            FILTER (WHERE first.due_at <= clock.now))[1] AS since
    FROM generate_series(0, 4) AS level (priority)
    CROSS JOIN LATERAL (
        SELECT ready.due_at, level.priority + CASE WHEN $4::float8 > 0 THEN
            floor(date_part('epoch', clock.now - ready.due_at) / $4) ELSE 0 END AS age
        FROM detent.detent_ready AS ready
        WHERE ready.lane = page.lane AND ready.priority = level.priority::smallint
        ORDER BY ready.due_at, ready.id
        LIMIT 1
    ) AS first
) AS head
WHERE head.due_at IS NOT NULL
ORDER BY page.lane COLLATE "C"
