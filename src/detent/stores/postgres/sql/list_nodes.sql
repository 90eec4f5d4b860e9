-- All known nodes, the oldest first.
SELECT incarnation, name, state, queues::text, host, pid, version, started_at, heartbeat_at,
    lease_until, capabilities, roles, info::text, load::text, dead_at, death
FROM detent.detent_node
ORDER BY started_at, incarnation
