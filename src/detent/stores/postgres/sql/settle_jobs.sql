-- Write any end of claims: outcomes, returns to the queue, parking, and what the attempt came to.
-- $1 node incarnation
-- $2 id  $3 fence  $4 task  $5 queue  $6 seconds waited  $7 seconds run  $8 result
-- $9 state that follows  $10 delay in seconds or NULL  $11 whether the attempt is charged
-- $12 kind of attempt to record or NULL  $13 error  $14 reason: one array each, sorted by id
WITH gone AS (
    DELETE FROM detent.detent_running AS running
    USING unnest(
        $2::uuid[], $3::bigint[], $4::text[], $5::text[], $6::float8[], $7::float4[], $8::bytea[],
        $9::text[], $10::float8[], $11::boolean[], $12::text[], $13::bytea[], $14::text[]
    ) AS said (
        id, fence, task, queue, waited, lasted, result, state, delay, charged, kind, error, reason
    )
    WHERE running.id = said.id AND running.fence = said.fence AND running.node = $1
    RETURNING running.*, said.task, said.queue, said.lasted, said.result, said.state, said.delay,
        said.charged, said.kind, said.error, said.reason,
        running.claimed_at + said.waited * interval '1 second' AS started_at
), ended AS (
    INSERT INTO detent.detent_outcome (
        id, generation, attempt, fence, finished_at, started_at, duration, node, state, task,
        queue, result, error, reason
    )
    SELECT id, generation, attempt, fence, clock_timestamp(), started_at, lasted, node, state, task,
        queue, result, error, reason
    FROM gone
    WHERE state NOT IN ('pending', 'waiting')
), back AS (
    INSERT INTO detent.detent_ready (
        id, due_at, attempt, generation, priority, crashes, hooks, lane, limits
    )
    -- Without a delay the job returns to its old place, not behind the backlog.
    SELECT id, coalesce(clock_timestamp() + delay * interval '1 second', due_at),
        attempt + charged::integer, generation, priority, crashes, hooks, lane, limits
    FROM gone
    WHERE state = 'pending'
), parked AS (
    INSERT INTO detent.detent_parked (
        id, reason, parked_at, due_at, attempt, generation, priority, crashes, hooks, lane, limits
    )
    SELECT id, coalesce(reason, 'waiting'), clock_timestamp(), due_at, attempt, generation, priority,
        crashes, hooks, lane, limits
    FROM gone
    WHERE state = 'waiting'
), tried AS (
    INSERT INTO detent.detent_attempt (
        id, generation, number, kind, node, started_at, ended_at, error
    )
    SELECT id, generation, attempt, kind, node, started_at, clock_timestamp(), error
    FROM gone
    WHERE kind IS NOT NULL
), unsignaled AS (
    DELETE FROM detent.detent_signal WHERE id IN (SELECT id FROM gone)
), progressed AS (
    DELETE FROM detent.detent_progress WHERE id IN (SELECT id FROM gone)
)
SELECT id, state, lane, priority, due_at, delay FROM gone
