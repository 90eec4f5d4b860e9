-- What do parked jobs wait for? It never changes while they wait.
-- $1 ids
SELECT id, waits_for FROM detent.detent_parked
WHERE id = ANY($1::uuid[]) AND waits_for IS NOT NULL
