-- The locks that are held.
SELECT name, fence, holder, owner, acquired_at, expires_at
FROM detent.detent_lock
WHERE expires_at > clock_timestamp()
ORDER BY name
