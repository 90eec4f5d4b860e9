-- A node claims no more. One that is recycled can still be told to stay away.
-- $1 incarnation  $2 state: draining or recycled
UPDATE detent.detent_node SET state = $2
WHERE incarnation = $1 AND state IN ('joining', 'active', 'recycled')
