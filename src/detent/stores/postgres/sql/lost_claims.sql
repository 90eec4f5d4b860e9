-- Lock claims whose node is dead, with what is needed to judge them; task and queue are NULL where
-- the job has no row.
-- $1 limit  $2 nodes that are known to be lost too
WITH dead AS MATERIALIZED (
    SELECT incarnation FROM detent.detent_node
    WHERE state = 'dead' AND rescued_at IS NULL AND autopsy IS NOT NULL
    UNION
    SELECT unnest($2::uuid[])
), found AS MATERIALIZED (
    -- In no order: see claims_of.
    SELECT id FROM detent.detent_running WHERE node = ANY (ARRAY(SELECT incarnation FROM dead))
), lost AS (
    -- Rows that a late finish of the dead node has just locked are left to it.
    SELECT running.*
    FROM detent.detent_running AS running
    WHERE running.id = ANY (ARRAY(SELECT id FROM found))
        AND running.node = ANY (ARRAY(SELECT incarnation FROM dead))
    ORDER BY running.id
    LIMIT $1
    FOR UPDATE SKIP LOCKED
)
SELECT
    lost.id, lost.fence, lost.node, job.task, job.queue, lost.lane, lost.crashes, lost.priority,
    lost.due_at, lost.hooks,
    signal.id IS NOT NULL AS cancel_requested,
    signal.reason AS cancel_reason,
    tried.alone, tried.unstarted,
    node.name AS node_name, node.host, node.pid, coalesce(node.fenced, false) AS fenced,
    node.autopsy, lost.claimed_at
FROM lost
LEFT JOIN LATERAL (
    SELECT job.task, job.queue FROM detent.detent_job AS job WHERE job.id = lost.id OFFSET 0
) AS job ON true
CROSS JOIN LATERAL (
    SELECT count(*) FILTER (WHERE attempt.alone)::integer AS alone,
        count(*) FILTER (WHERE attempt.kind = 'unstarted')::integer AS unstarted
    FROM detent.detent_attempt AS attempt
    WHERE attempt.id = lost.id AND attempt.generation = lost.generation
) AS tried
LEFT JOIN LATERAL (
    -- OFFSET: a look-up by id, whatever the statistics say.
    SELECT signal.id, signal.reason FROM detent.detent_signal AS signal
    WHERE signal.id = lost.id AND signal.kind = 'cancel'
    OFFSET 0
) AS signal ON true
LEFT JOIN detent.detent_node AS node ON node.incarnation = lost.node
ORDER BY lost.id
