-- Take a lock that is free, or whose time is over.

-- step: held
-- Who holds it, and until when?
-- ?1 name
SELECT CAST(json_group_array(json_array(hex(holder), fence, expires_at)) AS BLOB)
FROM detent_lock WHERE name = ?1

-- step: fence
-- One counter for all names: so a name can be forgotten, and its fences still only grow.
UPDATE detent_fence SET value = value + 1 WHERE name = 'lock'

-- step: taken
-- ?1 name  ?2 holder  ?3 owner  ?4 now  ?5 until when
INSERT INTO detent_lock (name, fence, holder, owner, acquired_at, expires_at)
SELECT ?1, value, ?2, ?3, ?4, ?5 FROM detent_fence WHERE name = 'lock'
ON CONFLICT (name) DO UPDATE
SET fence = excluded.fence, holder = excluded.holder, owner = excluded.owner,
    acquired_at = excluded.acquired_at, expires_at = excluded.expires_at

-- step: number
SELECT value FROM detent_fence WHERE name = 'lock'
