-- All that is known about some jobs.
-- $1 ids
SELECT * FROM detent.detent_jobs WHERE id = ANY($1::uuid[])
