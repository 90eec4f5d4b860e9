-- Renew the lease of a living node. Never creates or revives one: no row means "you are dead".

-- step: beat
-- ?1 incarnation  ?2 lease in microseconds  ?3 now  ?4 load as JSON, NULL keeps the old
UPDATE detent_node
SET heartbeat_at = ?3, lease_until = ?3 + ?2, load = coalesce(?4, load),
    steady_since = CASE
        WHEN ?3 BETWEEN heartbeat_at AND heartbeat_at + (lease_until - heartbeat_at) / 2
        THEN steady_since ELSE ?3
    END
WHERE incarnation = ?1 AND state <> 'dead'

-- step: nodes
-- How many are active, whether this one is draining, when the first lease of another ends, which
-- queues were scaled for all nodes, and which queues have a limit.
-- ?1 incarnation  ?2 now
WITH witness AS (
    -- See expire_nodes.
    SELECT coalesce(min(steady_since), ?2) AS since FROM detent_node
    WHERE state <> 'dead'
        AND ?2 BETWEEN heartbeat_at AND heartbeat_at + (lease_until - heartbeat_at) / 2
)
SELECT CAST(json_array(
    count(*) FILTER (WHERE state = 'active' AND lease_until > ?2),
    count(*) FILTER (WHERE state = 'draining' AND incarnation = ?1),
    min(max(lease_until, (SELECT since FROM witness) + (lease_until - heartbeat_at)))
        FILTER (WHERE state <> 'dead' AND incarnation <> ?1),
    json((SELECT json_group_object(name, slots) FROM detent_queue WHERE slots IS NOT NULL)),
    json((SELECT json_group_array(name) FROM detent_queue WHERE limited))
) AS BLOB)
FROM detent_node

-- step: locked
-- What a node knows of its lease that it cannot renew, since nobody can write: its length, its end,
-- and how many nodes have been heard of within half of theirs, as witnesses for its end.
-- ?1 incarnation  ?2 now
SELECT lease_until - heartbeat_at, lease_until,
    (
        SELECT count(*) FROM detent_node
        WHERE state <> 'dead' AND incarnation <> ?1
            AND ?2 BETWEEN heartbeat_at AND heartbeat_at + (lease_until - heartbeat_at) / 2
    )
FROM detent_node
WHERE incarnation = ?1 AND state <> 'dead'
