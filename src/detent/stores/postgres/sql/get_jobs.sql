-- All that is known about some jobs.
-- $1 ids
SELECT known.*
FROM unnest($1::uuid[]) AS wanted (id)
-- One by one: with a list, a plan made for small tables would read them whole and be kept.
CROSS JOIN LATERAL (
    SELECT
        jobs.*,
        -- The view has neither: it is older than their readers.
        (SELECT job.options FROM detent.detent_job AS job WHERE job.id = wanted.id) AS options,
        (SELECT job.principal FROM detent.detent_job AS job WHERE job.id = wanted.id) AS principal,
        NULL::timestamptz AS archived_at
    FROM detent.detent_jobs AS jobs
    WHERE jobs.id = wanted.id
    OFFSET 0
) AS known
