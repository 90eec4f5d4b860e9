-- As claim_gated, of a single lane of which many jobs were let in the last time: without what is
-- needed for several lanes, for strict order where one at a time may run, and for jobs that are not
-- urgent enough. That takes 0.7 us of each job. For the parameters see there. The last row also
-- tells what time it is.
WITH gate AS MATERIALIZED (
    SELECT *,
        -- The LIMIT bit of the hooks: others wait for the ends of these.
        CASE WHEN coalesce(resource_gate, task_gate, queue_gate) IS NULL THEN 0 ELSE 2 END AS hook
    FROM detent.detent_open_gates(
        $1::uuid, $2::text[], $3::text[], $4::integer[], $5::integer[], $6::integer[],
        $7::text[], $8::timestamptz[], $9::uuid[], $10::integer[], $11::integer[],
        $12::integer[], $13::text[], $14::text[], $15::bigint[], $16::boolean[], $17::integer[],
        $18::bigint[], $19::bigint[], $20::bigint[], $21::bigint[], $22::float8, $23::boolean,
        $24::integer, $25::float8
    )
), taken AS (
    DELETE FROM detent.detent_ready
    WHERE ctid = ANY (ARRAY(
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
                            ($8::timestamptz[])[level.priority + 1], gate.now - interval '1 second'
                        ),
                        ($9::uuid[])[level.priority + 1]
                    )
                    AND ready.due_at <= gate.now
                ORDER BY ready.due_at, ready.id
                LIMIT gate.room
                FOR UPDATE SKIP LOCKED
            ) AS head
            ORDER BY
                level.priority + CASE WHEN $25 > 0 THEN
                    floor(date_part('epoch', gate.now - head.due_at) / $25) ELSE 0 END DESC,
                head.due_at,
                head.id
            LIMIT gate.room
        ) AS best
    ))
    RETURNING id, due_at, attempt, generation, priority, crashes, hooks, lane
), claimed AS (
    INSERT INTO detent.detent_running (
        id, fence, node, claimed_at, due_at, attempt, generation, priority, crashes, hooks, lane,
        resource_gate, task_gate, queue_gate, weight
    )
    SELECT id, (SELECT detent.detent_epoch() + nextval('detent.detent_fence')), $1, (SELECT now FROM gate), due_at, attempt,
        generation, priority, crashes, hooks & ~2::smallint | (SELECT hook::smallint FROM gate), lane,
        (SELECT resource_gate FROM gate), (SELECT task_gate FROM gate),
        (SELECT queue_gate FROM gate), (SELECT held FROM gate)
    FROM taken
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
            floor(date_part('epoch', (SELECT now FROM gate) - claimed.due_at) / $25) ELSE 0 END DESC,
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
            ),
            (SELECT to_json(floors) FROM gate),
            (SELECT to_json(mosts) FROM gate),
            (SELECT server FROM gate),
            (SELECT date_part('epoch', now) FROM gate)
        )::text,
        'UTF8'
    ),
    NULL, NULL, NULL, NULL
FROM gate
