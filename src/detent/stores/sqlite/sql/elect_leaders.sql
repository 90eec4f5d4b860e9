-- Take the roles that nobody leads, and keep those that the candidate leads.

-- step: alive
-- A node that was declared dead gets and keeps nothing.
-- ?1 candidate
SELECT NOT EXISTS (SELECT 1 FROM detent_node WHERE incarnation = ?1 AND state = 'dead')

-- step: known
-- Who leads a role, and whether he still does.
-- ?1 role  ?2 now
SELECT CAST(json_group_array(json_array(
    role, term, hex(node), name, since, lease_until,
    node IS NOT NULL AND lease_until > ?2 AND NOT EXISTS (
        SELECT 1 FROM detent_node WHERE incarnation = detent_leader.node AND state = 'dead'
    )
)) AS BLOB)
FROM detent_leader WHERE role = ?1

-- step: kept
-- ?1 role  ?2 lease until
UPDATE detent_leader SET lease_until = ?2 WHERE role = ?1

-- step: epoch
SELECT value >> 40 << 40 FROM detent_fence WHERE name = 'claim'

-- step: taken
-- ?1 role  ?2 candidate  ?3 its name  ?4 now  ?5 lease until  ?6 term
INSERT INTO detent_leader AS known (role, term, node, name, since, lease_until)
VALUES (?1, ?6, ?2, ?3, ?4, ?5)
ON CONFLICT (role) DO UPDATE
SET term = excluded.term, node = excluded.node, name = excluded.name, since = excluded.since,
    lease_until = excluded.lease_until
