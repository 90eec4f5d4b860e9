-- The tries of a job that did not succeed, the oldest first.
-- ?1 id
SELECT number, generation, kind, node, started_at, ended_at, error, alone
FROM detent_attempt
WHERE id = ?1
ORDER BY ended_at, generation, number, rowid
