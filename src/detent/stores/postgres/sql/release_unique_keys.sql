-- Give back the business keys of jobs that have ended.
-- $1 ids
DELETE FROM detent.detent_key AS held
USING detent.detent_job AS job
WHERE job.id = ANY($1::uuid[])
    AND held.kind = 'unique' AND held.key = job.unique_key AND held.job = job.id
