-- Register a start of a node, and let jobs go that waited for a node that knows their task.
-- $1 incarnation  $2 name  $3 host  $4 pid  $5 version  $6 queues as JSON  $7 capabilities
-- $8 roles  $9 info as JSON  $10 lease in seconds  $11 whether it is ready to work
WITH node AS (
    INSERT INTO detent.detent_node (
        incarnation, name, state, lease_until, lease, heartbeat_at, started_at, host, pid, version,
        queues, capabilities, roles, info, steady_since
    )
    VALUES (
        $1, $2, CASE WHEN $11 THEN 'active' ELSE 'joining' END,
        clock_timestamp() + $10::float8 * interval '1 second', $10::float8 * interval '1 second',
        clock_timestamp(), clock_timestamp(), $3, $4, $5, $6::text::jsonb, $7::text[], $8::text[],
        $9::text::jsonb, clock_timestamp()
    )
    ON CONFLICT (incarnation) DO UPDATE
    SET lease_until = excluded.lease_until, heartbeat_at = excluded.heartbeat_at,
        state = CASE WHEN $11 THEN 'active' ELSE detent_node.state END
    WHERE detent_node.state IN ('joining', 'active')
    RETURNING heartbeat_at
), woken AS (
    DELETE FROM detent.detent_parked WHERE reason = 'unknown_task' AND $11 RETURNING *
), back AS (
    INSERT INTO detent.detent_ready (
        id, due_at, attempt, generation, priority, crashes, hooks, lane
    )
    SELECT id, due_at, attempt, generation, priority, crashes, hooks, lane FROM woken
)
SELECT heartbeat_at AS now FROM node
