-- Delete or archive ended jobs with all that belongs to them; one row says what came of it.
-- $1 id  $2 generation  $3 whether to archive: one array each, sorted by id
-- $4 what nodes that prune at once tell each other by
-- $5 role  $6 term  $7 node of the leader who does it; NULL for anybody else
WITH leader AS MATERIALIZED (
    SELECT 1 FROM detent.detent_leader
    WHERE role = $5::text AND term = $6::bigint AND node = $7::uuid
    FOR KEY SHARE
), turn AS MATERIALIZED (
    -- For the length of this statement, so that it works behind a pooler too.
    SELECT pg_try_advisory_xact_lock(hashtextextended($4::text, 0)) AS mine
), taken AS MATERIALIZED (
    SELECT said.id, said.archive, ended.row, job.row AS job_row, job.idempotency_key
    FROM turn
    CROSS JOIN unnest($1::uuid[], $2::integer[], $3::boolean[]) AS said (id, generation, archive)
    CROSS JOIN LATERAL (
        -- The lock keeps an operator's retry away. A job that was retried since it was found has
        -- another generation, or no outcome at all.
        SELECT outcome.ctid AS row
        FROM detent.detent_outcome AS outcome
        WHERE outcome.id = said.id AND outcome.generation = said.generation
        FOR UPDATE SKIP LOCKED
    ) AS ended
    LEFT JOIN LATERAL (
        SELECT ctid AS row, hooks, idempotency_key
        FROM detent.detent_job
        WHERE detent_job.id = said.id
        OFFSET 0
    ) AS job ON true
    LEFT JOIN LATERAL (
        SELECT expires_at
        FROM detent.detent_key AS key
        WHERE key.kind = 'idempotency' AND key.key = job.idempotency_key AND key.job = said.id
        OFFSET 0
    ) AS held ON true
    LEFT JOIN LATERAL (
        SELECT 1 AS here
        FROM detent.detent_parked AS parked
        WHERE parked.waits_for = said.id
        LIMIT 1
    ) AS waiting ON true
    WHERE turn.mine AND ($5::text IS NULL OR EXISTS (SELECT 1 FROM leader))
        -- Until then, whoever enqueues with its key again is told of this job.
        AND (held.expires_at IS NULL OR held.expires_at <= clock_timestamp())
        AND waiting.here IS NULL
        -- The hook FLOW: others may ask for its outcome as long as the flow goes on.
        AND coalesce(job.hooks, 0) & 4 = 0
), archived AS (
    INSERT INTO detent.detent_archive (
        id, archived_at, enqueued_at, due_at, started_at, finished_at, fence, duration, attempt,
        generation, priority, kind, node, superseded_by, parent, retry_of, state, task, queue, lane,
        codec, idempotency_key, unique_key, principal, trace, reason, tags, args, options, params,
        result, error
    )
    -- What the statements below delete is still seen here: all of them see one snapshot.
    SELECT taken.id, clock_timestamp(), job.enqueued_at, job.due_at, outcome.started_at,
        outcome.finished_at, outcome.fence, outcome.duration, outcome.attempt, outcome.generation,
        job.priority, job.kind, outcome.node, outcome.superseded_by, job.parent, job.retry_of,
        outcome.state, job.task, job.queue, job.lane, job.codec, job.idempotency_key,
        job.unique_key, job.principal, job.trace, outcome.reason, job.tags, job.args, job.options,
        job.params, outcome.result, outcome.error
    FROM taken
    CROSS JOIN LATERAL (
        SELECT * FROM detent.detent_outcome WHERE detent_outcome.id = taken.id OFFSET 0
    ) AS outcome
    CROSS JOIN LATERAL (
        SELECT * FROM detent.detent_job WHERE detent_job.id = taken.id OFFSET 0
    ) AS job
    WHERE taken.archive
    -- An id that is there already was enqueued once more after it was archived; one is enough.
    ON CONFLICT (id) DO NOTHING
), gone AS (
    DELETE FROM detent.detent_outcome WHERE ctid = ANY (ARRAY(SELECT row FROM taken))
), jobs AS (
    DELETE FROM detent.detent_job WHERE ctid = ANY (ARRAY(SELECT job_row FROM taken))
), attempts AS (
    DELETE FROM detent.detent_attempt WHERE id = ANY (ARRAY(SELECT id FROM taken))
), lines AS (
    DELETE FROM detent.detent_log WHERE id = ANY (ARRAY(SELECT id FROM taken))
), signals AS (
    DELETE FROM detent.detent_signal WHERE id = ANY (ARRAY(SELECT id FROM taken))
), progress AS (
    DELETE FROM detent.detent_progress WHERE id = ANY (ARRAY(SELECT id FROM taken))
), keys AS (
    -- Its key has expired, or the job would stay.
    DELETE FROM detent.detent_key WHERE ctid = ANY (ARRAY(
        SELECT expired.row
        FROM taken
        CROSS JOIN LATERAL (
            SELECT key.ctid AS row
            FROM detent.detent_key AS key
            WHERE key.kind = 'idempotency' AND key.key = taken.idempotency_key
                AND key.job = taken.id
            FOR UPDATE SKIP LOCKED
        ) AS expired
    ))
)
SELECT
    (SELECT mine FROM turn) AS mine,
    (SELECT count(*) FROM taken WHERE NOT archive) AS deleted,
    (SELECT count(*) FROM taken WHERE archive) AS archived
