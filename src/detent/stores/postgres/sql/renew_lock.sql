-- Give a lock more time. No row: it is no longer this holder's.
-- $1 name  $2 holder  $3 seconds
UPDATE detent.detent_lock
SET expires_at = clock_timestamp() + $3::float8 * interval '1 second'
WHERE name = $1 AND holder = $2
RETURNING name
