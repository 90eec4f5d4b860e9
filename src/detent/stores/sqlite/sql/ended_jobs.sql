-- Those of some jobs that have ended; waiting for results asks this often, so it is two probes.
-- ?1 ids in one blob
SELECT outcome.id
FROM detent_ids(?1) AS wanted
CROSS JOIN detent_outcome AS outcome ON outcome.id = wanted.id
UNION ALL
SELECT archive.id
FROM detent_ids(?1) AS wanted
CROSS JOIN detent_archive AS archive ON archive.id = wanted.id
