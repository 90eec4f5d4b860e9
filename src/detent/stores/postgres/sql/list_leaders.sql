-- Who leads at this moment.
SELECT role, term, node, name, since, lease_until
FROM detent.detent_leader AS leader
WHERE node IS NOT NULL
    AND lease_until > clock_timestamp()
    AND NOT EXISTS (
        SELECT 1 FROM detent.detent_node
        WHERE detent_node.incarnation = leader.node AND detent_node.state = 'dead'
    )
ORDER BY role
