-- Which of these ids are stored, whatever has become of their jobs.
-- $1 ids
SELECT id FROM detent.detent_job WHERE id = ANY ($1::uuid[])
