-- Claims whose node is dead or unknown, with what is needed to judge them; task and queue are null
-- where the job has no row.
-- ?1 limit  ?2 crashes that make a suspect
SELECT CAST(json_group_array(json_array(
    hex(id), fence, hex(node), task, queue, lane, crashes, hooks, cancel_requested, cancel_reason,
    suspects, node_name, host, pid, fenced, claimed_at
)) AS BLOB)
FROM (
    SELECT lost.id, lost.fence, lost.node, job.task, job.queue, lost.lane, lost.crashes,
        lost.hooks, signal.id IS NOT NULL AS cancel_requested, signal.reason AS cancel_reason,
        coalesce(suspicious.suspects, 0) AS suspects, node.name AS node_name, node.host, node.pid,
        coalesce(node.fenced, 0) AS fenced, lost.claimed_at
    FROM (
        SELECT * FROM detent_running
        WHERE node NOT IN (SELECT incarnation FROM detent_node WHERE state <> 'dead')
        ORDER BY id
        LIMIT ?1
    ) AS lost
    LEFT JOIN detent_job AS job ON job.id = lost.id
    LEFT JOIN detent_signal AS signal ON signal.id = lost.id AND signal.kind = 'cancel'
    LEFT JOIN detent_node AS node ON node.incarnation = lost.node
    LEFT JOIN (
        SELECT node, count(*) AS suspects FROM detent_running
        WHERE crashes >= ?2
        GROUP BY node
    ) AS suspicious ON suspicious.node = lost.node
    ORDER BY lost.id
)
