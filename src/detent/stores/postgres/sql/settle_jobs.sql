-- Write any end of claims: outcomes, returns to the queue, parking, and what the attempt came to.
-- $1 node incarnation
-- $2 id  $3 fence  $4 task  $5 queue  $6 seconds run  $7 result
-- $8 state that follows  $9 delay in seconds or NULL  $10 whether the attempt is charged
-- $11 kind of attempt to record or NULL  $12 error  $13 reason: one array each, sorted by id
WITH gone AS (
    DELETE FROM detent.detent_running AS running
    USING unnest(
        $2::uuid[], $3::bigint[], $4::text[], $5::text[], $6::float4[], $7::bytea[], $8::text[],
        $9::float8[], $10::boolean[], $11::text[], $12::bytea[], $13::text[]
    ) AS said (
        id, fence, task, queue, lasted, result, state, delay, charged, kind, error, reason
    )
    -- A range of one id, since with = a plan that was made for a small table would read it whole,
    -- join, and be kept. So each claim is looked up in its primary key, in the order given.
    WHERE running.id >= said.id AND running.id <= said.id
        AND running.fence = said.fence AND running.node = $1
    RETURNING running.*, said.task, said.queue, said.lasted, said.result, said.state, said.delay,
        said.charged, said.kind, said.error, said.reason,
        clock_timestamp() - said.lasted * interval '1 second' AS started_at
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
        id, due_at, attempt, generation, priority, crashes, hooks, lane
    )
    -- Without a delay the job returns to its old place, not behind the backlog.
    SELECT id, coalesce(clock_timestamp() + delay * interval '1 second', due_at),
        attempt + charged::integer, generation, priority, crashes, hooks, lane
    FROM gone
    WHERE state = 'pending'
), parked AS (
    INSERT INTO detent.detent_parked (
        id, reason, parked_at, due_at, attempt, generation, priority, crashes, hooks, lane
    )
    SELECT id, coalesce(reason, 'waiting'), clock_timestamp(), due_at, attempt, generation, priority,
        crashes, hooks, lane
    FROM gone
    WHERE state = 'waiting'
), held AS (
    -- A job that goes back behind an ordered gate holds it: see detent_hold.
    INSERT INTO detent.detent_hold (gate, job)
    SELECT DISTINCT ON (gone.task_gate) gone.task_gate, gone.id
    FROM gone
    CROSS JOIN LATERAL (
        SELECT 1 FROM detent.detent_limit AS known
        WHERE known.name = substring(gone.lane FROM '~(task:[^~*+#]*#?)') AND known.ordered
        OFFSET 0
    ) AS known
    WHERE gone.task_gate IS NOT NULL AND gone.state IN ('pending', 'waiting')
    ORDER BY gone.task_gate
    ON CONFLICT (gate) DO UPDATE SET job = excluded.job
), tried AS (
    INSERT INTO detent.detent_attempt (
        id, generation, number, kind, node, started_at, ended_at, error
    )
    SELECT id, generation, attempt, kind, node, started_at, clock_timestamp(), error
    FROM gone
    WHERE kind IS NOT NULL
), unsignaled AS (
    -- A request to cancel outlives the claim: whoever runs the job next will hear of it. One that
    -- came too late stays with the outcome.
    DELETE FROM detent.detent_signal
    WHERE id = ANY (ARRAY(SELECT id FROM gone WHERE state = 'canceled'))
), progressed AS (
    DELETE FROM detent.detent_progress WHERE id = ANY (ARRAY(SELECT id FROM gone))
)
SELECT id, state, lane, priority, due_at, delay, hooks FROM gone
