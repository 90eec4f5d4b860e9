-- Which job holds a key that has not expired?
-- ?1 kind  ?2 key  ?3 now
SELECT CAST(json_group_array(json_array(hex(job))) AS BLOB)
FROM detent_key
WHERE kind = ?1 AND key = ?2 AND (expires_at IS NULL OR expires_at > ?3)
