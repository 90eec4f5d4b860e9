-- Take an idempotency key of a task unless it is held and not expired. Returns a row when it is ours.
-- $1 key  $2 job  $3 time to live in seconds  $4 task  $5 digest or NULL
INSERT INTO detent.detent_key AS held (kind, key, scope, job, expires_at, digest)
VALUES ('idempotency', $1, $4, $2, clock_timestamp() + $3::float8 * interval '1 second', $5)
ON CONFLICT (kind, key, scope) DO UPDATE
SET job = excluded.job, expires_at = excluded.expires_at, digest = excluded.digest
-- The same job again is a repeated call after a lost reply.
WHERE held.expires_at <= clock_timestamp() OR held.job = excluded.job
RETURNING job
