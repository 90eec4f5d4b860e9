-- Remove nodes that have been dead for long and hold nothing any more.
-- $1 seconds  $2 limit
DELETE FROM detent.detent_node
WHERE incarnation = ANY (ARRAY(
    SELECT node.incarnation
    FROM detent.detent_node AS node
    WHERE node.state = 'dead'
        AND node.dead_at <= clock_timestamp() - $1::float8 * interval '1 second'
        AND node.rescued_at IS NOT NULL
    ORDER BY node.incarnation
    LIMIT $2
    FOR UPDATE SKIP LOCKED
))
RETURNING incarnation
