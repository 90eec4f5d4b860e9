-- Write a breaker that nobody has written since it was read: one whose version follows.
-- ?1 name  ?2 version  ?3 phase  ?4 since when  ?5 when half-open  ?6 body
INSERT INTO detent_breaker AS known (name, version, phase, since, half_open_at, body)
SELECT ?1, ?2, ?3, ?4, ?5, ?6
-- One that does not exist has the version 0.
WHERE ?2 - 1 = coalesce((SELECT version FROM detent_breaker WHERE name = ?1), 0)
ON CONFLICT (name) DO UPDATE
SET version = excluded.version, phase = excluded.phase, since = excluded.since,
    half_open_at = excluded.half_open_at, body = excluded.body
WHERE known.version = excluded.version - 1
