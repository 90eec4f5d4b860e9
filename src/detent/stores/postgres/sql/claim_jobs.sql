-- Move the best due jobs from ready to running in a node's name.
-- $1 node incarnation
-- $2 lanes, those of one queue side by side
-- $3 queues  $4 room in each  $5 first  $6 last of its heads: arrays of one length
-- $7 due times  $8 ids: where scans begin, one for each head
-- A head is one priority of one lane: number n, from 0, is priority n % 5 of lane n / 5 + 1.
-- $9 limit in all  $10 boost interval in seconds, 0 = off  $11 largest payload to return
WITH me AS MATERIALIZED (
    -- A node that is dead or has run out of time cannot claim. Locking its row keeps it from
    -- being declared dead between this look and our commit. FOR KEY SHARE lets heartbeats pass.
    -- The clock is read once, as a value: a volatile function cannot bound an index scan.
    SELECT clock_timestamp() AS now
    FROM detent.detent_node
    WHERE incarnation = $1 AND state = 'active' AND lease_until > clock_timestamp()
    FOR KEY SHARE
), taken AS (
    -- By ctid: 5-10 % faster than joining on the id (measured).
    DELETE FROM detent.detent_ready
    WHERE ctid = ANY (ARRAY(
        SELECT best.row
        FROM me
        CROSS JOIN LATERAL unnest($3::text[], $4::integer[], $5::integer[], $6::integer[])
            AS scan (queue, room, first, last)
        CROSS JOIN LATERAL (
            -- Within one lane and priority the order is the due time, so the head of each by
            -- index, merged, is the exact order with ageing at any length of the queue.
            SELECT head.row
            FROM generate_series(scan.first, scan.last) AS level (number)
            CROSS JOIN LATERAL (
                SELECT ready.ctid AS row, ready.due_at, ready.id
                FROM detent.detent_ready AS ready
                WHERE ready.lane = ($2::text[])[level.number / 5 + 1]
                    AND ready.priority = (level.number % 5)::smallint
                    -- The floor: behind the dead rows that a long transaction keeps from
                    -- vacuum. Never within the last second, for an enqueue that commits late.
                    AND (ready.due_at, ready.id) >= (
                        least(
                            ($7::timestamptz[])[level.number + 1], me.now - interval '1 second'
                        ),
                        ($8::uuid[])[level.number + 1]
                    )
                    AND ready.due_at <= me.now
                ORDER BY ready.due_at, ready.id
                LIMIT scan.room
                FOR UPDATE SKIP LOCKED
            ) AS head
            -- date_part, since extract computes with slow numerics.
            ORDER BY
                level.number % 5 + CASE WHEN $10::float8 > 0 THEN
                    floor(date_part('epoch', me.now - head.due_at) / $10) ELSE 0 END DESC,
                head.due_at,
                head.id
            LIMIT scan.room
        ) AS best
        -- Jobs of a queue that has a limit pass its gate: see claim_gated.
        WHERE NOT EXISTS (
            SELECT 1 FROM detent.detent_queue AS queue
            WHERE queue.name = scan.queue AND (queue.paused_at IS NOT NULL OR queue.limited)
        )
        LIMIT $9
    ))
    RETURNING id, due_at, attempt, generation, priority, crashes, hooks, lane
), claimed AS (
    INSERT INTO detent.detent_running (
        id, fence, node, claimed_at, due_at, attempt, generation, priority, crashes, hooks, lane
    )
    -- One fence for the whole claim: with the id it is as unique, and costs one nextval.
    SELECT id, (SELECT detent.detent_epoch() + nextval('detent.detent_fence')), $1, (SELECT now FROM me), due_at, attempt,
        generation, priority, crashes, hooks, lane
    FROM taken
    RETURNING id, fence, due_at, attempt, generation, priority, crashes, hooks, lane
)
SELECT
    claimed.id, claimed.fence, job.task, claimed.lane, claimed.priority, claimed.due_at,
    claimed.attempt, claimed.crashes, claimed.generation, claimed.hooks,
    -- The length of a stored value is known without reading it.
    CASE WHEN octet_length(job.args) <= $11 THEN job.args END AS args,
    job.codec, job.options, job.params, job.tags
FROM claimed
CROSS JOIN LATERAL (
    -- OFFSET keeps this a look-up by id: a plan that was made while the table had no rows would
    -- join it by reading it whole, and be kept when it has millions.
    SELECT * FROM detent.detent_job AS job WHERE job.id = claimed.id OFFSET 0
) AS job
ORDER BY
    claimed.priority + CASE WHEN $10::float8 > 0 THEN
        floor(date_part('epoch', (SELECT now FROM me) - claimed.due_at) / $10) ELSE 0 END DESC,
    claimed.due_at,
    claimed.id
