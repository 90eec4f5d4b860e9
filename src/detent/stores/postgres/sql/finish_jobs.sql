-- Write successes. A claim that is no longer ours matches nothing and writes nothing.
-- $1 node incarnation
-- $2 id  $3 fence  $4 seconds run: one array each, sorted by id
-- $5 result: the same, or NULL when no job has one
-- $6 kind of job, counted from 1: the same, or NULL when all are of the first
-- $7 task  $8 queue of each kind
WITH done AS (
    DELETE FROM detent.detent_running AS running
    USING unnest($2::uuid[], $3::bigint[], $4::float4[], $5::bytea[], $6::integer[])
        AS said (id, fence, lasted, result, kind)
    -- A range of one id, since with = a plan that was made for a small table would read it whole,
    -- join, and be kept. So each claim is looked up in its primary key, in the order given.
    WHERE running.id >= said.id AND running.id <= said.id
        AND running.fence = said.fence AND running.node = $1
    RETURNING running.id, running.generation, running.attempt, running.fence, said.lasted,
        said.result, coalesce(said.kind, 1) AS kind
)
INSERT INTO detent.detent_outcome (
    id, generation, attempt, fence, finished_at, started_at, duration, node, state, task, queue,
    result
)
SELECT id, generation, attempt, fence, clock_timestamp(),
    clock_timestamp() - lasted * interval '1 second', lasted, $1, 'succeeded', ($7::text[])[kind],
    ($8::text[])[kind], result
FROM done
RETURNING id
