-- Write successes. A claim that is no longer ours matches nothing and writes nothing.
-- $1 node incarnation
-- $2 id  $3 fence  $4 task  $5 queue  $6 seconds waited since the claim  $7 seconds run
-- $8 result: one array each, sorted by id
WITH done AS (
    DELETE FROM detent.detent_running AS running
    USING unnest(
        $2::uuid[], $3::bigint[], $4::text[], $5::text[], $6::float8[], $7::float4[], $8::bytea[]
    ) AS said (id, fence, task, queue, waited, lasted, result)
    WHERE running.id = said.id AND running.fence = said.fence AND running.node = $1
    RETURNING running.id, running.generation, running.attempt, running.fence, running.claimed_at,
        said.task, said.queue, said.waited, said.lasted, said.result
)
INSERT INTO detent.detent_outcome (
    id, generation, attempt, fence, finished_at, started_at, duration, node, state, task, queue,
    result
)
SELECT id, generation, attempt, fence, clock_timestamp(), claimed_at + waited * interval '1 second',
    lasted, $1, 'succeeded', task, queue, result
FROM done
RETURNING id
