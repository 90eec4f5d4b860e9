-- All daemons; the report of a node that no longer leads tells of the past.
SELECT
    daemon.name,
    CASE
        WHEN leader.role IS NOT NULL AND leader.lease_until > clock_timestamp()
            AND NOT EXISTS (
                SELECT 1 FROM detent.detent_node
                WHERE detent_node.incarnation = leader.node AND detent_node.state = 'dead'
            )
            THEN daemon.state
        ELSE 'stopped'
    END AS state,
    daemon.node,
    daemon.node_name,
    daemon.term,
    daemon.since,
    daemon.restarts,
    daemon.last_error,
    daemon.failed_at
FROM detent.detent_daemon AS daemon
LEFT JOIN detent.detent_leader AS leader
    ON leader.role = 'daemon:' || daemon.name
    AND leader.term = daemon.term
    AND leader.node = daemon.node
ORDER BY daemon.name
