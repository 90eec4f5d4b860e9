-- Declare nodes dead whose lease has run out.
WITH expired AS (
    -- FOR UPDATE waits for nobody and is refused to nobody but a claim of that node: a claim that
    -- is being made keeps its node alive, and a dead node cannot claim.
    SELECT incarnation
    FROM detent.detent_node
    WHERE state <> 'dead' AND lease_until <= clock_timestamp()
    ORDER BY incarnation
    FOR UPDATE SKIP LOCKED
)
UPDATE detent.detent_node
SET state = 'dead', dead_at = clock_timestamp(), death = 'its lease ran out'
WHERE incarnation = ANY (ARRAY(SELECT incarnation FROM expired))
RETURNING incarnation, name, host, pid
