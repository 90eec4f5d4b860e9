-- Whether there is anything to rescue: asked without a lock, since nearly always there is not.
-- ?1 now
WITH witness AS (
    -- See expire_nodes.
    SELECT coalesce(min(steady_since), ?1) AS since FROM detent_node
    WHERE state <> 'dead'
        AND ?1 BETWEEN heartbeat_at AND heartbeat_at + (lease_until - heartbeat_at) / 2
)
SELECT EXISTS (
        SELECT 1 FROM detent_node
        WHERE state <> 'dead' AND lease_until <= ?1
            AND (SELECT since FROM witness) + (lease_until - heartbeat_at) <= ?1
    )
    OR EXISTS (
        SELECT 1 FROM detent_running
        WHERE node NOT IN (SELECT incarnation FROM detent_node WHERE state <> 'dead')
    )
