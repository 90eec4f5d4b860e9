-- Take a lock from whoever holds it.
-- $1 name
DELETE FROM detent.detent_lock
WHERE name = $1
RETURNING name, fence, holder, owner, acquired_at, expires_at, expires_at > clock_timestamp() AS held
