-- The locks that are held.
-- ?1 now
SELECT name, fence, holder, owner, acquired_at, expires_at
FROM detent_lock
WHERE expires_at > ?1
ORDER BY name
