-- What dead nodes hold of which no rescue has looked yet at what they held.

-- step: claims
SELECT CAST(json_group_array(json_array(
    hex(node.incarnation), json(node.queues), running.lane, running.crashes, running.fence,
    running.priority, running.due_at, hex(running.id)
)) AS BLOB)
FROM detent_node AS node
JOIN detent_running AS running ON running.node = node.incarnation
WHERE node.state = 'dead' AND node.autopsy IS NULL

-- step: scaled
-- The queues that were scaled for all nodes, and to how many slots.
SELECT CAST(json_group_array(json_array(name, slots)) AS BLOB)
FROM detent_queue
WHERE slots IS NOT NULL
