-- All that is known about some jobs.
-- $1 ids
SELECT known.*
FROM unnest($1::uuid[]) AS wanted (id)
-- One by one: with a list, a plan made for small tables would read them whole and be kept.
CROSS JOIN LATERAL (SELECT * FROM detent.detent_jobs WHERE id = wanted.id OFFSET 0) AS known
