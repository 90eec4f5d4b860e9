-- Delete or archive ended jobs with all that belongs to them.

-- step: old
-- ?1 ids in one blob  ?2 arrays of generation and whether to archive (0 or 1) as JSON  ?3 now
-- ?4 role  ?5 term  ?6 node of the leader who does it; NULL for anybody else
INSERT INTO temp.detent_old (id, archive)
SELECT outcome.id, json_extract(said.value, '$[1]')
FROM json_each(?2) AS said
CROSS JOIN detent_outcome AS outcome ON outcome.id = substr(?1, said.key * 16 + 1, 16)
CROSS JOIN detent_job AS job ON job.id = outcome.id
-- A job that was retried since it was found has another generation, or no outcome at all.
WHERE outcome.generation = json_extract(said.value, '$[0]')
    -- Until then, whoever enqueues with its key again is told of this job.
    AND NOT EXISTS (
        SELECT 1 FROM detent_key AS held
        WHERE held.kind = 'idempotency' AND held.key = job.idempotency_key
            AND held.job = job.id AND held.expires_at > ?3
    )
    AND NOT EXISTS (SELECT 1 FROM detent_parked WHERE waits_for = job.id)
    -- The hook FLOW: others may ask for its outcome as long as the flow goes on.
    AND job.hooks & 4 = 0
    AND (?4 IS NULL OR EXISTS (
        SELECT 1 FROM detent_leader WHERE role = ?4 AND term = ?5 AND node = ?6
    ))

-- step: archived
-- ?1 now
INSERT INTO detent_archive (
    id, archived_at, enqueued_at, due_at, started_at, finished_at, fence, duration, attempt,
    generation, priority, kind, node, superseded_by, parent, retry_of, state, task, queue, lane,
    codec, idempotency_key, unique_key, principal, trace, reason, tags, options, params, error,
    args, result
)
SELECT job.id, ?1, job.enqueued_at, job.due_at, outcome.started_at, outcome.finished_at,
    outcome.fence, outcome.duration, outcome.attempt, outcome.generation, job.priority, job.kind,
    outcome.node, outcome.superseded_by, job.parent, job.retry_of, outcome.state, job.task,
    job.queue, job.lane, job.codec, job.idempotency_key, job.unique_key, job.principal, job.trace,
    outcome.reason, job.tags, job.options, job.params, outcome.error, job.args, outcome.result
FROM temp.detent_old AS old
CROSS JOIN detent_outcome AS outcome ON outcome.id = old.id
CROSS JOIN detent_job AS job ON job.id = old.id
WHERE old.archive
-- An id that is there already was enqueued once more after it was archived; one is enough.
ON CONFLICT (id) DO NOTHING

-- step: taken
SELECT CAST(json_group_array(json_array(hex(id), archive)) AS BLOB) FROM temp.detent_old

-- step: clear
DELETE FROM temp.detent_old
