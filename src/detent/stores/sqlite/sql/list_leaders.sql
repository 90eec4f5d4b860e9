-- Who leads at this moment.
-- ?1 now
SELECT role, term, node, name, since, lease_until
FROM detent_leader
WHERE node IS NOT NULL AND lease_until > ?1
    AND NOT EXISTS (
        SELECT 1 FROM detent_node WHERE incarnation = detent_leader.node AND state = 'dead'
    )
ORDER BY role
