-- Write the events that jobs ask for whose end this transaction has written.
-- ?1 ids of jobs that have ended, in one blob  ?2 now
INSERT INTO detent_event (
    sink, kind, job, task, queue, generation, attempt, at, duration, node, reason, error,
    created_at, due_at
)
SELECT sink.key, ended.state, ended.id, ended.task, ended.queue, ended.generation, ended.attempt,
    ended.finished_at, ended.duration, ended.node, ended.reason, ended.error, ?2, ?2
FROM detent_ids(?1) AS wanted
CROSS JOIN detent_outcome AS ended ON ended.id = wanted.id
CROSS JOIN detent_job AS job ON job.id = wanted.id
CROSS JOIN json_each(CAST(job.options AS TEXT), '$.sinks') AS sink
CROSS JOIN json_each(sink.value) AS state
WHERE state.value = ended.state
ORDER BY wanted.number, sink.key
