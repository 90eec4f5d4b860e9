-- A node is gone in peace. One that still holds claims stays, for those who look after it.
-- $1 incarnation
DELETE FROM detent.detent_node AS node
WHERE incarnation = $1
    AND NOT EXISTS (SELECT 1 FROM detent.detent_running WHERE detent_running.node = node.incarnation)
