-- Lock claims whose node is dead or unknown, with what is needed to judge them.
-- $1 limit  $2 crashes that make a suspect
WITH lost AS (
    -- Rows that a late finish of the dead node has just locked are left to it.
    SELECT running.*
    FROM detent.detent_running AS running
    WHERE NOT EXISTS (
        SELECT 1 FROM detent.detent_node AS node
        WHERE node.incarnation = running.node AND node.state <> 'dead'
    )
    ORDER BY running.id
    LIMIT $1
    FOR UPDATE SKIP LOCKED
)
SELECT
    lost.id, lost.fence, lost.node, job.task, job.queue, lost.lane, lost.crashes, lost.hooks,
    signal.id IS NOT NULL AS cancel_requested,
    signal.reason AS cancel_reason,
    (SELECT count(*) FROM detent.detent_running AS other
     WHERE other.node = lost.node AND other.crashes >= $2::integer)::integer AS suspects,
    node.name AS node_name, node.host, node.pid, coalesce(node.fenced, false) AS fenced,
    lost.claimed_at
FROM lost
CROSS JOIN LATERAL (
    SELECT job.task, job.queue FROM detent.detent_job AS job WHERE job.id = lost.id OFFSET 0
) AS job
LEFT JOIN LATERAL (
    -- OFFSET: a look-up by id, whatever the statistics say.
    SELECT signal.id, signal.reason FROM detent.detent_signal AS signal
    WHERE signal.id = lost.id AND signal.kind = 'cancel'
    OFFSET 0
) AS signal ON true
LEFT JOIN detent.detent_node AS node ON node.incarnation = lost.node
ORDER BY lost.id
