-- A node is gone in peace. One that still holds claims stays, for those who look after it.
-- ?1 incarnation
DELETE FROM detent_node
WHERE incarnation = ?1 AND NOT EXISTS (SELECT 1 FROM detent_running WHERE node = ?1)
