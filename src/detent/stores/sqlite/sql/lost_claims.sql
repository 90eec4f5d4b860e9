-- Claims whose node is dead or unknown, with what is needed to judge them; task and queue are null
-- where the job has no row.
-- ?1 limit
SELECT CAST(json_group_array(json_array(
    hex(id), fence, hex(node), task, queue, lane, crashes, priority, due_at, hooks,
    cancel_requested, cancel_reason,
    alone, unstarted, node_name, host, pid, fenced, autopsy, claimed_at
)) AS BLOB)
FROM (
    SELECT lost.id, lost.fence, lost.node, job.task, job.queue, lost.lane, lost.crashes,
        lost.priority, lost.due_at, lost.hooks, signal.id IS NOT NULL AS cancel_requested,
        signal.reason AS cancel_reason,
        (SELECT count(*) FROM detent_attempt AS attempt
         WHERE attempt.id = lost.id AND attempt.generation = lost.generation
            AND attempt.alone) AS alone,
        (SELECT count(*) FROM detent_attempt AS attempt
         WHERE attempt.id = lost.id AND attempt.generation = lost.generation
            AND attempt.kind = 'unstarted') AS unstarted,
        node.name AS node_name, node.host, node.pid,
        coalesce(node.fenced, 0) AS fenced, node.autopsy, lost.claimed_at
    FROM (
        SELECT * FROM detent_running
        WHERE node NOT IN (SELECT incarnation FROM detent_node WHERE state <> 'dead')
        ORDER BY id
        LIMIT ?1
    ) AS lost
    LEFT JOIN detent_job AS job ON job.id = lost.id
    LEFT JOIN detent_signal AS signal ON signal.id = lost.id AND signal.kind = 'cancel'
    LEFT JOIN detent_node AS node ON node.incarnation = lost.node
    ORDER BY lost.id
)
