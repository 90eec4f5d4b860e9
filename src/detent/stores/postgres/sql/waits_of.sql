-- What do parked jobs wait for? It never changes while they wait.
-- $1 ids
SELECT known.id, known.waits_for
-- Apart, or the planner may read the whole index of those that wait.
FROM (SELECT id, waits_for FROM detent.detent_parked WHERE id = ANY($1::uuid[]) OFFSET 0) AS known
WHERE known.waits_for IS NOT NULL
