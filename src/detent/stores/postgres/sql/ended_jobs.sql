-- Those of some jobs that have ended; waiting for results asks this often, so it is one probe.
-- $1 ids
SELECT id FROM detent.detent_outcome WHERE id = ANY($1::uuid[])
