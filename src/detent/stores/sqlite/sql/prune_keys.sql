-- Delete idempotency keys that have expired.
-- ?1 now  ?2 limit
-- ?3 role  ?4 term  ?5 node of the leader who does it; NULL for anybody else
DELETE FROM detent_key
WHERE (kind, key, scope) IN (
    SELECT kind, key, scope FROM detent_key WHERE expires_at <= ?1 ORDER BY expires_at LIMIT ?2
)
    AND (?3 IS NULL OR EXISTS (
        SELECT 1 FROM detent_leader WHERE role = ?3 AND term = ?4 AND node = ?5
    ))
