-- Lock dead nodes of which no rescue has looked yet at what they held, and return what that is.
WITH dead AS (
    -- Its node is dead since an earlier statement: whatever it claimed is seen by this one.
    SELECT incarnation, queues
    FROM detent.detent_node
    WHERE state = 'dead' AND rescued_at IS NULL AND autopsy IS NULL
    ORDER BY incarnation
    FOR UPDATE SKIP LOCKED
)
SELECT dead.incarnation, running.lane, running.crashes, running.fence, running.priority,
    running.due_at, running.id,
    coalesce(scaled.slots, (dead.queues ->> held.queue)::integer) AS slots
FROM dead
JOIN detent.detent_running AS running ON running.node = dead.incarnation
    AND running.node = ANY (ARRAY(SELECT incarnation FROM dead))
CROSS JOIN LATERAL (
    SELECT split_part(split_part(running.lane, '~', 1), '+', 1) AS queue
) AS held
LEFT JOIN detent.detent_queue AS scaled ON scaled.name = held.queue
