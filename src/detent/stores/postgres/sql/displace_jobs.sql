-- Cancel jobs that do not run, each for the one that takes its place.
-- $1 id  $2 the job that takes its place: one array each, sorted by id
WITH ready AS (
    DELETE FROM detent.detent_ready
    USING unnest($1::uuid[], $2::uuid[]) AS said (id, successor)
    -- A range of one id: see settle_jobs.
    WHERE detent_ready.id >= said.id AND detent_ready.id <= said.id
    RETURNING detent_ready.id, attempt, generation, hooks, NULL::uuid AS waits_for, said.successor
), parked AS (
    DELETE FROM detent.detent_parked
    USING unnest($1::uuid[], $2::uuid[]) AS said (id, successor)
    WHERE detent_parked.id >= said.id AND detent_parked.id <= said.id
    RETURNING detent_parked.id, attempt, generation, hooks, waits_for, said.successor
), gone AS (
    SELECT * FROM ready UNION ALL SELECT * FROM parked
), ended AS (
    INSERT INTO detent.detent_outcome (
        id, generation, attempt, finished_at, state, task, queue, reason, superseded_by
    )
    SELECT gone.id, gone.generation, gone.attempt, clock_timestamp(), 'canceled', job.task,
        job.queue, 'replaced by ' || gone.successor, gone.successor
    FROM gone
    CROSS JOIN LATERAL (
        SELECT task, queue FROM detent.detent_job WHERE detent_job.id = gone.id OFFSET 0
    ) AS job
)
SELECT id, hooks, waits_for FROM gone
