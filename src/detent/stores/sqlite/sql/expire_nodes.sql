-- Declare nodes dead whose lease has run out.
-- ?1 now

-- step: expired
SELECT CAST(json_group_array(json_array(hex(incarnation), name, host, pid)) AS BLOB)
FROM (
    SELECT * FROM detent_node
    WHERE state <> 'dead' AND lease_until <= ?1
    ORDER BY incarnation
)

-- step: dead
UPDATE detent_node SET state = 'dead', dead_at = ?1, death = 'its lease ran out'
WHERE state <> 'dead' AND lease_until <= ?1
