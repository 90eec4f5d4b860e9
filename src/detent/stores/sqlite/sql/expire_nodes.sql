-- Declare nodes dead whose lease is over: it has run out, and another node has seen the store answer
-- for the length of it (detent.model.lease).
-- ?1 now
WITH witness AS (
    -- Since when a node has sent its heartbeats without a gap, up to now.
    SELECT coalesce(min(steady_since), ?1) AS since FROM detent_node
    WHERE state <> 'dead'
        AND ?1 BETWEEN heartbeat_at AND heartbeat_at + (lease_until - heartbeat_at) / 2
)
SELECT CAST(json_group_array(json_array(hex(incarnation), name, host, pid)) AS BLOB)
FROM (
    SELECT * FROM detent_node
    WHERE state <> 'dead' AND lease_until <= ?1
        AND (SELECT since FROM witness) + (lease_until - heartbeat_at) <= ?1
    ORDER BY incarnation
)
