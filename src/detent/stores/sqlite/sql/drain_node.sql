-- A node claims no more.
-- ?1 incarnation
UPDATE detent_node SET state = 'draining' WHERE incarnation = ?1 AND state IN ('joining', 'active')
