-- A payload as JSON. One that is encrypted, or made by another codec, is only described: no JSON
-- begins with the byte 0, as all that is encrypted does.
CREATE FUNCTION detent.detent_shown(data bytea, codec text) RETURNS jsonb
LANGUAGE sql IMMUTABLE PARALLEL SAFE AS $$
    SELECT CASE
        WHEN data IS NULL THEN NULL
        WHEN codec = 'json' AND substring(data FROM 1 FOR 1) NOT IN ('\x', '\x00')
            THEN convert_from(data, 'UTF8')::jsonb
        ELSE to_jsonb(format('<%s bytes of %s>', length(data),
            CASE WHEN substring(data FROM 1 FOR 1) = '\x00' THEN 'encrypted data' ELSE codec END))
    END
$$;

-- For people with psql, and for the listings.
CREATE OR REPLACE VIEW detent.detent_jobs AS
SELECT
    job.id,
    job.task,
    job.queue,
    job.lane,
    CASE
        WHEN outcome.id IS NOT NULL THEN outcome.state
        WHEN running.id IS NOT NULL THEN 'running'
        WHEN ready.id IS NOT NULL THEN 'pending'
        WHEN parked.reason = 'paused' THEN 'paused'
        WHEN parked.id IS NOT NULL THEN 'waiting'
    END AS state,
    coalesce(running.priority, ready.priority, parked.priority, job.priority) AS priority,
    coalesce(outcome.attempt, running.attempt, ready.attempt, parked.attempt) AS attempt,
    coalesce(outcome.generation, running.generation, ready.generation, parked.generation)
        AS generation,
    coalesce(running.crashes, ready.crashes, parked.crashes, 0) AS crashes,
    job.enqueued_at,
    coalesce(running.due_at, ready.due_at, parked.due_at, job.due_at) AS due_at,
    coalesce(outcome.started_at, running.claimed_at) AS started_at,
    outcome.finished_at,
    outcome.duration,
    coalesce(outcome.node, running.node) AS node,
    coalesce(outcome.fence, running.fence) AS fence,
    job.tags,
    job.args,
    job.codec,
    job.params,
    outcome.result,
    outcome.error,
    coalesce(outcome.reason, parked.reason) AS reason,
    outcome.superseded_by,
    job.idempotency_key,
    job.unique_key,
    EXISTS (
        SELECT 1 FROM detent.detent_signal AS signal
        WHERE signal.id = running.id AND signal.kind = 'cancel'
    ) AS cancel_requested,
    progress.fraction AS progress,
    progress.message AS progress_message,
    detent.detent_shown(job.args, job.codec) AS args_json,
    detent.detent_shown(job.params, job.codec) AS params_json,
    detent.detent_shown(outcome.result, 'json') AS result_json,
    detent.detent_shown(outcome.error, 'json') AS error_json
FROM detent.detent_job AS job
LEFT JOIN detent.detent_ready AS ready ON ready.id = job.id
LEFT JOIN detent.detent_running AS running ON running.id = job.id
LEFT JOIN detent.detent_parked AS parked ON parked.id = job.id
LEFT JOIN detent.detent_outcome AS outcome ON outcome.id = job.id
LEFT JOIN detent.detent_progress AS progress ON progress.id = running.id;
