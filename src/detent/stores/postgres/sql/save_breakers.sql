-- Write breakers that nobody has written since they were read: those whose version follows.
-- $1 names  $2 versions  $3 phases  $4 since when  $5 when half-open  $6 bodies
INSERT INTO detent.detent_breaker AS known (name, version, phase, since, half_open_at, body)
SELECT fresh.name, fresh.version, fresh.phase, fresh.since, fresh.half_open_at, fresh.body
FROM unnest(
    $1::text[], $2::bigint[], $3::text[], $4::timestamptz[], $5::timestamptz[], $6::text[]
) AS fresh (name, version, phase, since, half_open_at, body)
-- One that does not exist has the version 0. Asked for each row alone, and so by the index.
WHERE fresh.version - 1 = coalesce(
    (SELECT there.version FROM detent.detent_breaker AS there WHERE there.name = fresh.name), 0
)
-- Everybody takes the rows in the same order, so nobody waits in a circle.
ORDER BY fresh.name COLLATE "C"
ON CONFLICT (name) DO UPDATE
SET version = excluded.version,
    phase = excluded.phase,
    since = excluded.since,
    half_open_at = excluded.half_open_at,
    body = excluded.body
WHERE known.version = excluded.version - 1
RETURNING name
