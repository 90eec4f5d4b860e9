-- Breakers by name.
-- ?1 names
SELECT name, version, phase, since, half_open_at, body
FROM detent_breaker
WHERE name IN (SELECT value FROM json_each(?1))
