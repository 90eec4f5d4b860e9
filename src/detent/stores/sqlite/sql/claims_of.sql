-- The claims in a node's name.
-- ?1 incarnation
SELECT CAST(json_group_array(json_array(hex(id), fence)) AS BLOB)
FROM (SELECT id, fence FROM detent_running WHERE node = ?1 ORDER BY id)
