-- Those of some jobs that have ended; waiting for results asks this often, so it is two probes.
-- $1 ids
SELECT id FROM detent.detent_outcome WHERE id = ANY($1::uuid[])
UNION ALL
SELECT id FROM detent.detent_archive WHERE id = ANY($1::uuid[])
