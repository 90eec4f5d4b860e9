-- Register a start of a node.
-- ?1 incarnation  ?2 name  ?3 host  ?4 pid  ?5 version  ?6 queues  ?7 capabilities  ?8 roles
-- ?9 info, all four as JSON  ?10 lease in microseconds  ?11 now  ?12 state: joining or active
INSERT INTO detent_node AS known (
    incarnation, name, state, lease_until, lease, heartbeat_at, started_at, host, pid, version,
    queues, capabilities, roles, info, steady_since
)
VALUES (?1, ?2, ?12, ?11 + ?10, ?10, ?11, ?11, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?11)
ON CONFLICT (incarnation) DO UPDATE
SET lease_until = excluded.lease_until, heartbeat_at = excluded.heartbeat_at,
    state = CASE WHEN ?12 = 'active' THEN ?12 ELSE known.state END
WHERE known.state IN ('joining', 'active')
