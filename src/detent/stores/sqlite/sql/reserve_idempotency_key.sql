-- Take an idempotency key that nobody holds any more.
-- ?1 key  ?2 job  ?3 time to live in microseconds  ?4 now
INSERT INTO detent_key (kind, key, job, expires_at)
VALUES ('idempotency', ?1, ?2, ?4 + ?3)
ON CONFLICT (kind, key) DO UPDATE SET job = excluded.job, expires_at = excluded.expires_at
