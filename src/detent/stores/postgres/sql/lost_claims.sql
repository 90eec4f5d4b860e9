-- Lock claims whose node is dead, with what is needed to judge them; task and queue are NULL where
-- the job has no row.
-- $1 limit  $2 crashes that make a suspect  $3 nodes that are known to be lost too
WITH dead AS MATERIALIZED (
    SELECT incarnation FROM detent.detent_node WHERE state = 'dead' AND rescued_at IS NULL
    UNION
    SELECT unnest($3::uuid[])
), lost AS (
    -- Rows that a late finish of the dead node has just locked are left to it.
    SELECT running.*
    FROM detent.detent_running AS running
    WHERE running.node = ANY (ARRAY(SELECT incarnation FROM dead))
    ORDER BY running.id
    LIMIT $1
    FOR UPDATE SKIP LOCKED
), suspicious AS MATERIALIZED (
    -- Counted once, and not for each claim: that would read all claims each time.
    SELECT running.node, count(*)::integer AS suspects
    FROM detent.detent_running AS running
    WHERE running.node = ANY (ARRAY(SELECT incarnation FROM dead))
        AND running.crashes >= $2::integer
    GROUP BY running.node
)
SELECT
    lost.id, lost.fence, lost.node, job.task, job.queue, lost.lane, lost.crashes, lost.hooks,
    signal.id IS NOT NULL AS cancel_requested,
    signal.reason AS cancel_reason,
    coalesce(suspicious.suspects, 0) AS suspects,
    node.name AS node_name, node.host, node.pid, coalesce(node.fenced, false) AS fenced,
    lost.claimed_at
FROM lost
LEFT JOIN LATERAL (
    SELECT job.task, job.queue FROM detent.detent_job AS job WHERE job.id = lost.id OFFSET 0
) AS job ON true
LEFT JOIN LATERAL (
    -- OFFSET: a look-up by id, whatever the statistics say.
    SELECT signal.id, signal.reason FROM detent.detent_signal AS signal
    WHERE signal.id = lost.id AND signal.kind = 'cancel'
    OFFSET 0
) AS signal ON true
LEFT JOIN suspicious ON suspicious.node = lost.node
LEFT JOIN detent.detent_node AS node ON node.incarnation = lost.node
ORDER BY lost.id
