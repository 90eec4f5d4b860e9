-- Ended jobs whose time is over, the oldest first; and, last, a row without a generation that says
-- how far the look went if it did not see everything. Locks nothing.
-- $1 state
-- $2 time of the end  $3 id: where the look before has ended
-- $4 the least that a job stays, in seconds, whatever its queue
-- $5 how long jobs stay, in seconds, or NULL for ever  $6 whether they are archived then
-- $7 queue  $8 how long  $9 whether: the same for queues with rules of their own, one array each
-- $10 how many to find  $11 how many to read
WITH clock AS MATERIALIZED (
    -- Read once, as a value: a volatile function cannot bound an index scan.
    SELECT clock_timestamp() AS now
), bound AS MATERIALIZED (
    SELECT
        now - $4::float8 * interval '1 second' AS moment,
        -- The first id that can have been made at that moment. Five seconds more, since ids are
        -- made by the clocks of clients.
        (lpad(to_hex(greatest(
            1000 * (date_part('epoch', now) - $4::float8 + 5), 0
        )::bigint), 12, '0') || repeat('0', 20))::uuid AS id
    FROM clock
), seen AS MATERIALIZED (
    (
        -- Successes, the many, are in no index by time. But ids are made in the order of time, and
        -- no job ends before its id is made: so those whose time is over are found among the
        -- oldest ids. What else stands there (delayed jobs, other queues) is stepped over.
        SELECT old.*
        FROM bound
        CROSS JOIN LATERAL (
            SELECT id, generation, state, queue, finished_at
            FROM detent.detent_outcome
            WHERE $1::text = 'succeeded' AND id > $3::uuid AND id < bound.id
            ORDER BY id
            LIMIT $11
        ) AS old
    )
    UNION ALL
    (
        SELECT old.*
        FROM bound
        CROSS JOIN LATERAL (
            SELECT id, generation, state, queue, finished_at
            FROM detent.detent_outcome
            WHERE $1::text <> 'succeeded' AND state <> 'succeeded' AND state = $1
                AND (finished_at, id) > ($2::timestamptz, $3::uuid)
                AND finished_at <= bound.moment
            ORDER BY finished_at, id
            LIMIT $11
        ) AS old
    )
), due AS MATERIALIZED (
    SELECT seen.id, seen.generation, seen.finished_at,
        CASE WHEN own.place IS NULL THEN $6::boolean ELSE ($9::boolean[])[own.place] END AS archive
    FROM clock
    CROSS JOIN seen
    CROSS JOIN LATERAL (SELECT array_position($7::text[], seen.queue)) AS own (place)
    WHERE seen.state = $1
        AND seen.finished_at <= clock.now - interval '1 second'
            * CASE WHEN own.place IS NULL THEN $5::float8 ELSE ($8::float8[])[own.place] END
    -- In the order in which they are seen, and without a sort, so that no more are read than it
    -- takes to find that many. One that was passed over would be found by the next sweep.
    LIMIT $10
)
SELECT id, generation, finished_at, archive FROM due
UNION ALL
(
    SELECT id, NULL, finished_at, NULL
    FROM seen
    WHERE (SELECT count(*) FROM due) < $10 AND (SELECT count(*) FROM seen) >= $11
    ORDER BY CASE WHEN $1 <> 'succeeded' THEN finished_at END DESC NULLS LAST, id DESC
    LIMIT 1
)
