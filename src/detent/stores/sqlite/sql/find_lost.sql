-- Whether there is anything to rescue: asked without a lock, since nearly always there is not.
-- ?1 now
SELECT EXISTS (SELECT 1 FROM detent_node WHERE state <> 'dead' AND lease_until <= ?1)
    OR EXISTS (
        SELECT 1 FROM detent_running
        WHERE node NOT IN (SELECT incarnation FROM detent_node WHERE state <> 'dead')
    )
