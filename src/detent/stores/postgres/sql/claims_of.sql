-- The claims in a node's name.
-- $1 incarnation
SELECT id, fence FROM detent.detent_running WHERE node = $1 ORDER BY id
