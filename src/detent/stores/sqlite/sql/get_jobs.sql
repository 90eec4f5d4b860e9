-- All that is known about some jobs.
-- ?1 ids in one blob

-- step: known
SELECT
    known.*,
    -- The view is older than its readers.
    (SELECT job.principal FROM detent_job AS job WHERE job.id = wanted.id) AS principal,
    known.state IN ('succeeded', 'failed') AND EXISTS (
        SELECT 1 FROM detent_signal AS signal
        WHERE signal.id = wanted.id AND signal.kind = 'cancel'
    ) AS cancel_too_late,
    NULL AS archived_at
FROM detent_ids(?1) AS wanted
CROSS JOIN detent_job_now AS known ON known.id = wanted.id

-- step: state
-- ?1 id
SELECT CAST(json_group_array(json_array(state, generation)) AS BLOB)
FROM (
    SELECT state, generation FROM detent_job_now WHERE id = ?1
    UNION ALL
    SELECT 'archived', generation FROM detent_archive WHERE id = ?1
)
