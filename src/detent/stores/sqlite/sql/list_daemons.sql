-- All daemons; the report of a node that no longer leads tells of the past.
-- ?1 now
SELECT
    daemon.name,
    CASE
        WHEN EXISTS (
            SELECT 1 FROM detent_leader AS leader
            WHERE leader.role = 'daemon:' || daemon.name AND leader.term = daemon.term
                AND leader.node = daemon.node AND leader.lease_until > ?1
                AND NOT EXISTS (
                    SELECT 1 FROM detent_node
                    WHERE incarnation = leader.node AND state = 'dead'
                )
        ) THEN daemon.state
        ELSE 'stopped'
    END AS state,
    daemon.node, daemon.node_name, daemon.term, daemon.since, daemon.restarts, daemon.last_error,
    daemon.failed_at
FROM detent_daemon AS daemon
ORDER BY daemon.name
