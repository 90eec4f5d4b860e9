-- Delete idempotency keys that have expired.
-- ?1 now  ?2 limit
DELETE FROM detent_key
WHERE (kind, key) IN (
    SELECT kind, key FROM detent_key WHERE expires_at <= ?1 ORDER BY expires_at LIMIT ?2
)
