-- Remove nodes that have been dead for long and hold nothing any more.
-- ?1 dead since then or earlier  ?2 limit
DELETE FROM detent_node
WHERE incarnation IN (
    SELECT incarnation
    FROM detent_node AS node
    WHERE node.state = 'dead' AND node.dead_at <= ?1
        AND node.incarnation NOT IN (SELECT node FROM detent_running)
    ORDER BY node.incarnation
    LIMIT ?2
)
