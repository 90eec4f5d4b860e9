-- All known nodes, the oldest first.
SELECT incarnation, name, state, queues, host, pid, version, started_at, heartbeat_at, lease_until,
    capabilities, roles, info, load, dead_at, death
FROM detent_node
ORDER BY started_at, incarnation
