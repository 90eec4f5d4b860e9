-- Give back the business keys of jobs that have ended. A replacement that ended while it still
-- waited returns its key to the job it was to replace, which runs on.
-- $1 ids  $2 the job that each waited for, or NULL: one array each
WITH returned AS (
    UPDATE detent.detent_key AS held SET job = ended.waits_for
    FROM unnest($1::uuid[], $2::uuid[]) AS ended (id, waits_for)
    JOIN detent.detent_job AS job ON job.id = ended.id
    WHERE ended.waits_for IS NOT NULL
        AND held.kind = 'unique' AND held.key = job.unique_key AND held.job = ended.id
)
DELETE FROM detent.detent_key AS held
USING unnest($1::uuid[], $2::uuid[]) AS ended (id, waits_for)
JOIN detent.detent_job AS job ON job.id = ended.id
WHERE ended.waits_for IS NULL
    AND held.kind = 'unique' AND held.key = job.unique_key AND held.job = job.id
