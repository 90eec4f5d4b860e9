-- End claims of dead nodes: back to their old place, canceled, or failed. What is to be on record
-- is written to the attempts.
-- $1 id  $2 fence  $3 node  $4 task  $5 queue  $6 state  $7 crashes  $8 lane  $9 evidence
-- $10 reason  $11 kind of the attempt, NULL for none  $12 alone: one array each, sorted by id
WITH gone AS (
    DELETE FROM detent.detent_running AS running
    USING unnest(
        $1::uuid[], $2::bigint[], $3::uuid[], $4::text[], $5::text[], $6::text[], $7::integer[],
        $8::text[], $9::bytea[], $10::text[], $11::text[], $12::boolean[]
    ) AS said (
        id, fence, node, task, queue, state, crashes, lane, error, reason, kind, alone
    )
    -- A range of one id: see settle_jobs.
    WHERE running.id >= said.id AND running.id <= said.id
        AND running.fence = said.fence AND running.node = said.node
    RETURNING running.id, running.fence, running.node, running.claimed_at, running.due_at,
        running.attempt, running.generation, running.priority, running.hooks,
        running.task_gate,
        said.task, said.queue, said.state, said.crashes, said.lane, said.error, said.reason,
        said.kind, said.alone
), ended AS (
    INSERT INTO detent.detent_outcome (
        id, generation, attempt, fence, finished_at, started_at, duration, node, state, task,
        queue, error, reason
    )
    SELECT id, generation, attempt, fence, clock_timestamp(), claimed_at,
        date_part('epoch', clock_timestamp() - claimed_at), node, state, task, queue,
        CASE WHEN state = 'failed' THEN error END, reason
    FROM gone
    WHERE state <> 'pending'
), back AS (
    INSERT INTO detent.detent_ready (
        id, due_at, attempt, generation, priority, crashes, hooks, lane
    )
    SELECT id, due_at, attempt, generation, priority, crashes, hooks, lane
    FROM gone
    WHERE state = 'pending'
), held AS (
    -- See settle_jobs.
    INSERT INTO detent.detent_hold (gate, job)
    SELECT DISTINCT ON (gone.task_gate) gone.task_gate, gone.id
    FROM gone
    CROSS JOIN LATERAL (
        SELECT 1 FROM detent.detent_limit AS known
        WHERE known.name = substring(gone.lane FROM '~(task:[^~*+#]*#?)') AND known.ordered
        OFFSET 0
    ) AS known
    WHERE gone.task_gate IS NOT NULL AND gone.state = 'pending'
    ORDER BY gone.task_gate
    ON CONFLICT (gate) DO UPDATE SET job = excluded.job
), tried AS (
    INSERT INTO detent.detent_attempt (
        id, generation, number, kind, node, started_at, ended_at, error, alone
    )
    SELECT id, generation, attempt, kind, node, claimed_at, clock_timestamp(), error, alone
    FROM gone
    WHERE kind IS NOT NULL
), unsignaled AS (
    DELETE FROM detent.detent_signal
    WHERE id = ANY (ARRAY(SELECT id FROM gone WHERE state = 'canceled'))
), progressed AS (
    DELETE FROM detent.detent_progress WHERE id = ANY (ARRAY(SELECT id FROM gone))
)
SELECT id, task, queue, node, state, crashes, attempt, lane, priority, due_at, hooks
FROM gone
ORDER BY id
