-- Write the events that jobs ask for whose end this transaction has written.
-- $1 ids of jobs that have ended
INSERT INTO detent.detent_event (
    sink, kind, job, task, queue, generation, attempt, at, duration, node, reason, error,
    created_at, due_at
)
SELECT sink.key, ended.state, ended.id, ended.task, ended.queue, ended.generation, ended.attempt,
    ended.finished_at, ended.duration, ended.node, ended.reason, ended.error, clock_timestamp(),
    clock_timestamp()
FROM unnest($1::uuid[]) AS wanted (id)
CROSS JOIN LATERAL (
    SELECT * FROM detent.detent_outcome WHERE detent_outcome.id = wanted.id OFFSET 0
) AS ended
CROSS JOIN LATERAL (
    SELECT convert_from(options, 'UTF8')::jsonb -> 'sinks' AS sinks
    FROM detent.detent_job
    WHERE detent_job.id = wanted.id AND options IS NOT NULL
    OFFSET 0
) AS job
CROSS JOIN LATERAL jsonb_each(job.sinks) AS sink
WHERE sink.value @> to_jsonb(ended.state)
ORDER BY ended.id, sink.key
