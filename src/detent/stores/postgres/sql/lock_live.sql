-- Keep jobs from ending until this transaction has. Returns those that are live; one that moves
-- from table to table at this moment may be missing.
-- $1 ids
WITH running AS (
    SELECT id FROM detent.detent_running WHERE id = ANY($1::uuid[]) ORDER BY id FOR KEY SHARE
), ready AS (
    SELECT id FROM detent.detent_ready WHERE id = ANY($1::uuid[]) ORDER BY id FOR KEY SHARE
), parked AS (
    SELECT id FROM detent.detent_parked WHERE id = ANY($1::uuid[]) ORDER BY id FOR KEY SHARE
)
SELECT id FROM running UNION SELECT id FROM ready UNION SELECT id FROM parked
