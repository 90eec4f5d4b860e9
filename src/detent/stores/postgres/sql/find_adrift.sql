-- The nodes that hold claims and do not live, and the claims whose job has no row. Reads all claims.
-- $1 how many claims at most
SELECT
    ARRAY(
        SELECT DISTINCT running.node
        FROM detent.detent_running AS running
        WHERE NOT EXISTS (
            SELECT 1 FROM detent.detent_node AS node
            WHERE node.incarnation = running.node AND node.state <> 'dead'
        )
        ORDER BY running.node
    ) AS nodes,
    ARRAY(
        SELECT running.id
        FROM detent.detent_running AS running
        LEFT JOIN LATERAL (
            -- OFFSET: a look-up by id, whatever the statistics say.
            SELECT true AS known FROM detent.detent_job AS job WHERE job.id = running.id OFFSET 0
        ) AS job ON true
        WHERE job.known IS NULL
        ORDER BY running.id
        LIMIT $1
    ) AS orphans
