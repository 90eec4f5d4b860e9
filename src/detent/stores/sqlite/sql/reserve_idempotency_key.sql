-- Take an idempotency key of a task that nobody holds any more.
-- ?1 key  ?2 job  ?3 time to live in microseconds  ?4 now  ?5 task  ?6 digest or NULL
INSERT INTO detent_key (kind, key, scope, job, expires_at, digest)
VALUES ('idempotency', ?1, ?5, ?2, ?4 + ?3, ?6)
ON CONFLICT (kind, key, scope) DO UPDATE
SET job = excluded.job, expires_at = excluded.expires_at, digest = excluded.digest
