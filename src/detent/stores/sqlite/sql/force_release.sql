-- Take a lock from whoever holds it.
-- ?1 name

-- step: held
SELECT CAST(json_group_array(json_array(
    name, fence, hex(holder), owner, acquired_at, expires_at
)) AS BLOB)
FROM detent_lock WHERE name = ?1

-- step: gone
DELETE FROM detent_lock WHERE name = ?1
