-- Whether there is anything to rescue: a look that locks nothing, since nearly always there is not.
SELECT
    EXISTS (
        SELECT 1 FROM detent.detent_node
        WHERE state <> 'dead' AND lease_until <= clock_timestamp()
    ) OR EXISTS (
        SELECT 1 FROM detent.detent_running AS running
        WHERE NOT EXISTS (
            SELECT 1 FROM detent.detent_node AS node
            WHERE node.incarnation = running.node AND node.state <> 'dead'
        )
    ) AS found
