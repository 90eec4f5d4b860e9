-- The lanes of some queues that have gates, and how long until the first job of each is due.
-- And of the most urgent that is due: its priority, and for how long it has waited.
-- $1 queues  $2 only lanes behind this one  $3 limit  $4 boost interval in seconds, 0 = off
-- $5 families of which one lane is enough, and those of suspects
WITH RECURSIVE clock AS MATERIALIZED (
    SELECT clock_timestamp() AS now
), ranges AS MATERIALIZED (
    -- All lanes of a queue begin with its name and one of two signs. By bytes, whatever the order
    -- of letters is in this database. One probe for each range, two for each queue: most of
    -- thousands hold nothing, and the walk leaves those out.
    SELECT array_agg(range.low ORDER BY range.low COLLATE "C") AS low,
        array_agg(range.high ORDER BY range.low COLLATE "C") AS high
    FROM (
        SELECT queue || sign.low AS low, queue || sign.high AS high
        FROM unnest($1::text[]) AS asked (queue)
        CROSS JOIN (VALUES ('+', ','), ('~', chr(127))) AS sign (low, high)
    ) AS range
    CROSS JOIN LATERAL (
        SELECT ready.lane
        FROM detent.detent_ready AS ready
        WHERE strpos(ready.lane, '~') > 0
            AND ready.lane COLLATE "C" > greatest(range.low COLLATE "C", $2::text COLLATE "C")
            AND ready.lane COLLATE "C" < range.high COLLATE "C"
        ORDER BY ready.lane COLLATE "C"
        LIMIT 1
    ) AS first
), lanes AS (
    -- One step per lane, over any number of jobs, and one per range that holds no more. Range after
    -- range, so that whatever is behind a page is behind its last lane.
    SELECT 1 AS number, $2::text AS lane, false AS is_found
    UNION ALL
    SELECT lanes.number + CASE WHEN following.lane IS NULL THEN 1 ELSE 0 END,
        coalesce(following.lane, lanes.lane), following.lane IS NOT NULL
    FROM lanes
    JOIN ranges ON lanes.number <= cardinality(ranges.low)
    LEFT JOIN LATERAL (
        SELECT ready.lane
        FROM detent.detent_ready AS ready
        WHERE strpos(ready.lane, '~') > 0
            AND ready.lane COLLATE "C" > greatest(
                ranges.low[lanes.number] COLLATE "C",
                -- The sign that comes after all keys of a family.
                CASE WHEN split_part(lanes.lane, '#', 1) = ANY ($5::text[])
                    AND strpos(lanes.lane, '#') > 0 AND split_part(lanes.lane, '~', 3) = ''
                THEN split_part(lanes.lane, '#', 1) || '$' ELSE lanes.lane END COLLATE "C"
            )
            AND ready.lane COLLATE "C" < ranges.high[lanes.number] COLLATE "C"
        ORDER BY ready.lane COLLATE "C"
        LIMIT 1
    ) AS following ON true
), page AS (
    -- The limit ends the walk.
    (SELECT lane FROM lanes WHERE is_found LIMIT $3)
    UNION
    (
        SELECT ready.lane
        FROM unnest($5::text[]) AS asked (family)
        CROSS JOIN LATERAL (
            SELECT ready.lane
            FROM detent.detent_ready AS ready
            WHERE split_part(ready.lane, '#', 1)
                    || CASE WHEN right(ready.lane, 2) = '+!' THEN '+!' ELSE '' END
                    = asked.family || '+!'
                AND split_part(ready.lane, '~', 2) LIKE 'task:%#%'
                AND split_part(ready.lane, '~', 3) = ''
                AND ready.lane COLLATE "C" > $2::text COLLATE "C"
            -- The order of the index of families, so that no plan takes another one.
            ORDER BY ready.priority, ready.due_at, ready.id
            LIMIT $3
        ) AS ready
    )
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
LIMIT $3
