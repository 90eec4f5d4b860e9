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
    -- Each claim is looked up by its id, in the order given, whatever the planner believes about
    -- the size of the table: OFFSET keeps it from being read whole and joined.
    CROSS JOIN LATERAL (
        SELECT held.ctid AS row
        FROM detent.detent_running AS held
        WHERE held.id = said.id AND held.fence = said.fence AND held.node = $1
        OFFSET 0
    ) AS mine
    WHERE running.ctid = mine.row
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
