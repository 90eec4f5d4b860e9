-- Take an idempotency key unless it is held and not expired. Returns a row when it is ours.
-- $1 key  $2 job  $3 time to live in seconds
INSERT INTO detent.detent_key AS held (kind, key, job, expires_at)
VALUES ('idempotency', $1, $2, clock_timestamp() + $3::float8 * interval '1 second')
ON CONFLICT (kind, key) DO UPDATE
SET job = excluded.job, expires_at = excluded.expires_at
-- The same job again is a repeated call after a lost reply.
WHERE held.expires_at <= clock_timestamp() OR held.job = excluded.job
RETURNING job
