-- Declare nodes dead whose lease is over: it has run out, and another node has seen the store answer
-- for the length of it (detent.model.lease).
WITH witness AS (
    -- Since when a node has sent its heartbeats without a gap, up to now.
    SELECT coalesce(min(steady_since), clock_timestamp()) AS since
    FROM detent.detent_node
    WHERE state <> 'dead'
        AND clock_timestamp() BETWEEN heartbeat_at
            AND heartbeat_at + (lease_until - heartbeat_at) / 2
), expired AS (
    -- FOR UPDATE SKIP LOCKED waits for no transaction, and only a claim of that node keeps it from
    -- the lock: a claim that is being made keeps its node alive, and a dead node cannot claim.
    SELECT incarnation
    FROM detent.detent_node
    WHERE state <> 'dead' AND lease_until <= clock_timestamp()
        AND (SELECT since FROM witness) + (lease_until - heartbeat_at) <= clock_timestamp()
    ORDER BY incarnation
    FOR UPDATE SKIP LOCKED
)
UPDATE detent.detent_node
SET state = 'dead', dead_at = clock_timestamp(), death = 'its lease ran out'
WHERE incarnation = ANY (ARRAY(SELECT incarnation FROM expired))
RETURNING incarnation, name, host, pid
