-- Payloads that were too large to come with the claim.
-- ?1 ids in one blob
SELECT job.id, job.args
FROM detent_ids(?1) AS wanted
CROSS JOIN detent_job AS job ON job.id = wanted.id
