-- Remove claims whose job has no row, with what else is kept of the job.
-- $1 ids
WITH locked AS (
    -- One that a late end has just locked is left to it.
    SELECT running.id
    FROM detent.detent_running AS running
    LEFT JOIN LATERAL (
        -- OFFSET: a look-up by id, whatever the statistics say.
        SELECT true AS known FROM detent.detent_job AS job WHERE job.id = running.id OFFSET 0
    ) AS job ON true
    WHERE running.id = ANY ($1::uuid[]) AND job.known IS NULL
    ORDER BY running.id
    FOR UPDATE OF running SKIP LOCKED
), gone AS (
    DELETE FROM detent.detent_running WHERE id = ANY (ARRAY(SELECT id FROM locked))
    RETURNING id, fence, node, lane, hooks
), unsignaled AS (
    DELETE FROM detent.detent_signal WHERE id = ANY (ARRAY(SELECT id FROM gone))
), progressed AS (
    DELETE FROM detent.detent_progress WHERE id = ANY (ARRAY(SELECT id FROM gone))
), unkeyed AS (
    -- Which key it was only the job's row could tell, so all business keys are read.
    DELETE FROM detent.detent_key
    WHERE kind = 'unique' AND job = ANY (ARRAY(SELECT id FROM gone WHERE hooks & 1 <> 0))
)
SELECT id, fence, node, lane, hooks FROM gone ORDER BY id
