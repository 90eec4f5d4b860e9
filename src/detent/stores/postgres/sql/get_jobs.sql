-- All that is known about some jobs.
-- $1 ids
SELECT known.*
FROM unnest($1::uuid[]) AS wanted (id)
-- One by one: with a list, a plan made for small tables would read them whole and be kept.
CROSS JOIN LATERAL (
    SELECT
        -- Not all of the view: its last columns are for people, and reading JSON takes time.
        jobs.id, jobs.task, jobs.queue, jobs.lane, jobs.state, jobs.priority, jobs.attempt,
        jobs.generation, jobs.crashes, jobs.enqueued_at, jobs.due_at, jobs.started_at,
        jobs.finished_at, jobs.duration, jobs.node, jobs.fence, jobs.tags, jobs.args, jobs.codec,
        jobs.params, jobs.result, jobs.error, jobs.reason, jobs.superseded_by,
        jobs.idempotency_key, jobs.unique_key, jobs.cancel_requested, jobs.progress,
        jobs.progress_message,
        -- The view has none of these: it is older than their readers.
        (SELECT job.options FROM detent.detent_job AS job WHERE job.id = wanted.id) AS options,
        (SELECT job.principal FROM detent.detent_job AS job WHERE job.id = wanted.id) AS principal,
        jobs.state IN ('succeeded', 'failed') AND EXISTS (
            SELECT 1 FROM detent.detent_signal AS signal
            WHERE signal.id = wanted.id AND signal.kind = 'cancel'
        ) AS cancel_too_late,
        NULL::timestamptz AS archived_at
    FROM detent.detent_jobs AS jobs
    WHERE jobs.id = wanted.id
    OFFSET 0
) AS known
