-- Move the best due jobs of lanes with gates to running, no more than the gates let in.
-- $1 node incarnation
-- $2 lanes  $3 their queues  $4 room in each  $5 how many of each could start at once
-- $6 the lowest aged priority to be taken of each  $7 the gate of its fair share, or NULL
-- $8 due times  $9 ids: where scans begin, five priorities for each lane
-- $10 numbers of the gates of all lanes  $11 weights  $12 how many up to each lane's last
-- $13 gates  $14 the limits they go by  $15 keys of their locks  $16 whether each must have a limit
-- $17 its place among the limits of a running job  $18 how much is asked of it in all
-- $19 the oldest fence that can count at it  $20 how much of it was used at most  $21 up to which
-- fence
-- $22 on which server  $23 whether the only lane has as many as there is room for
-- $24 limit in all  $25 boost interval in seconds, 0 = off  $26 largest payload to return
-- All rows but the last are claims. The last has no id, and as args JSON: of each lane how many were
-- let in, which gate let no more in, when to ask again, when the next is due, priority and seconds of
-- waiting of what is most urgent, the weight of its share, and whether the rest of the gate is kept
-- for it; then the oldest fence that counts at each gate, how much of it is used at most, and on which
-- server.
WITH gate AS MATERIALIZED (
    SELECT * FROM detent.detent_open_gates(
        $1::uuid, $2::text[], $3::text[], $4::integer[], $5::integer[], $6::integer[],
        $7::text[], $8::timestamptz[], $9::uuid[], $10::integer[], $11::integer[],
        $12::integer[], $13::text[], $14::text[], $15::bigint[], $16::boolean[], $17::integer[],
        $18::bigint[], $19::bigint[], $20::bigint[], $21::bigint[], $22::float8, $23::boolean,
        $24::integer, $25::float8
    )
), taken AS (
    -- What became ready while the gates were waited for is not seen here, and left for the next.
    DELETE FROM detent.detent_ready
    WHERE ctid = ANY (
        ARRAY(
            SELECT best.row
            FROM gate
            CROSS JOIN LATERAL (
                -- As in claim_jobs.
                SELECT head.row
                FROM generate_series(0, 4) AS level (priority)
                CROSS JOIN LATERAL (
                    SELECT ready.ctid AS row, ready.due_at, ready.id
                    FROM detent.detent_ready AS ready
                    WHERE ready.lane = gate.lane
                        AND ready.priority = level.priority::smallint
                        AND (ready.due_at, ready.id) >= (
                            least(
                                ($8::timestamptz[])[(gate.number - 1) * 5 + level.priority + 1],
                                gate.now - interval '1 second'
                            ),
                            ($9::uuid[])[(gate.number - 1) * 5 + level.priority + 1]
                        )
                        AND ready.due_at <= gate.now
                    ORDER BY ready.due_at, ready.id
                    LIMIT CASE WHEN gate.only_one IS NULL THEN gate.room ELSE 0 END
                    FOR UPDATE SKIP LOCKED
                ) AS head
                -- Within a priority the first have aged most: what is left out stands behind.
                WHERE level.priority + CASE WHEN $25 > 0 THEN
                    floor(date_part('epoch', gate.now - head.due_at) / $25) ELSE 0 END
                    >= ($6::integer[])[gate.number]
                ORDER BY
                    level.priority + CASE WHEN $25 > 0 THEN
                        floor(date_part('epoch', gate.now - head.due_at) / $25) ELSE 0 END DESC,
                    head.due_at,
                    head.id
                LIMIT gate.room
            ) AS best
        ) || ARRAY(
            SELECT best.row
            FROM gate
            CROSS JOIN LATERAL (
                SELECT ready.ctid AS row
                FROM detent.detent_ready AS ready
                WHERE ready.id = gate.only_one AND ready.lane = gate.lane
                FOR UPDATE SKIP LOCKED
            ) AS best
        )
    )
    RETURNING id, due_at, attempt, generation, priority, crashes, hooks, lane
), claimed AS (
    INSERT INTO detent.detent_running (
        id, fence, node, claimed_at, due_at, attempt, generation, priority, crashes, hooks, lane,
        resource_gate, task_gate, queue_gate, weight
    )
    -- The LIMIT bit of the hooks, and the gates: others wait for its end.
    SELECT taken.id, (SELECT detent.detent_epoch() + nextval('detent.detent_fence')), $1, gate.now, taken.due_at,
        taken.attempt, taken.generation, taken.priority, taken.crashes,
        CASE WHEN coalesce(gate.resource_gate, gate.task_gate, gate.queue_gate) IS NULL
            THEN taken.hooks & ~2::smallint ELSE taken.hooks | 2::smallint END,
        taken.lane, gate.resource_gate, gate.task_gate, gate.queue_gate, gate.held
    FROM taken
    JOIN gate ON gate.lane = taken.lane
    RETURNING id, fence, due_at, attempt, generation, priority, crashes, hooks, lane
), best AS (
    SELECT
        claimed.id, claimed.fence, job.task, claimed.lane, claimed.priority, claimed.due_at,
        claimed.attempt, claimed.crashes, claimed.generation, claimed.hooks,
        CASE WHEN octet_length(job.args) <= $26::integer THEN job.args END AS args,
        job.codec, job.options, job.params, job.tags
    FROM claimed
    CROSS JOIN LATERAL (
        SELECT * FROM detent.detent_job AS job WHERE job.id = claimed.id OFFSET 0
    ) AS job
    ORDER BY
        claimed.priority + CASE WHEN $25 > 0 THEN
            floor(date_part('epoch', (SELECT now FROM gate LIMIT 1) - claimed.due_at) / $25)
            ELSE 0 END DESC,
        claimed.due_at,
        claimed.id
)
SELECT * FROM best
UNION ALL
SELECT NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL,
    convert_to(
        json_build_array(
            json_agg(
                json_build_array(room, blocked_by, wait, due_in, priority, waited, weight, keeps)
                ORDER BY number
            ),
            (SELECT to_json(floors) FROM gate LIMIT 1),
            (SELECT to_json(mosts) FROM gate ORDER BY number DESC LIMIT 1),
            (SELECT server FROM gate LIMIT 1)
        )::text,
        'UTF8'
    ),
    NULL, NULL, NULL, NULL
FROM gate
