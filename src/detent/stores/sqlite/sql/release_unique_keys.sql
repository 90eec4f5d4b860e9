-- Give back the business keys of jobs that have ended. A replacement that ended while it still
-- waited returns its key to the job it was to replace, which runs on.
-- ?1 ids in one blob  ?2 the job that each waited for, in one blob; 16 zero bytes for none

-- step: returned
UPDATE detent_key AS held
SET job = ended.waits_for
FROM (
    SELECT job.id, job.task, job.unique_key, substr(?2, said.number * 16 + 1, 16) AS waits_for
    FROM detent_ids(?1) AS said
    CROSS JOIN detent_job AS job ON job.id = said.id
) AS ended
WHERE held.kind = 'unique' AND held.key = ended.unique_key AND held.scope = ended.task
    AND held.job = ended.id
    AND ended.waits_for <> zeroblob(16)

-- step: released
DELETE FROM detent_key
WHERE kind = 'unique'
    AND key IN (
        SELECT job.unique_key FROM detent_ids(?1) AS said
        CROSS JOIN detent_job AS job ON job.id = said.id
        WHERE job.unique_key IS NOT NULL
    )
    -- A key that was passed on, or returned just now, is no longer held by one of these.
    AND job IN (SELECT id FROM detent_ids(?1))
