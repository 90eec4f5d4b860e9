-- Which job of a task holds a key that has not expired, and what are its arguments?
-- ?1 kind  ?2 key  ?3 now  ?4 task
SELECT CAST(json_group_array(json_array(hex(job), hex(digest))) AS BLOB)
FROM detent_key
WHERE kind = ?1 AND key = ?2 AND scope = ?4 AND (expires_at IS NULL OR expires_at > ?3)
