-- Whether there is anything to rescue: a look that locks nothing, since nearly always there is not.
-- It reads no claims, among which dead rows may stand in any number: see find_adrift.
WITH witness AS (
    -- See expire_nodes.
    SELECT coalesce(min(steady_since), clock_timestamp()) AS since
    FROM detent.detent_node
    WHERE state <> 'dead'
        AND clock_timestamp() BETWEEN heartbeat_at
            AND heartbeat_at + (lease_until - heartbeat_at) / 2
)
SELECT
    EXISTS (
        SELECT 1 FROM detent.detent_node
        WHERE state <> 'dead' AND lease_until <= clock_timestamp()
            AND (SELECT since FROM witness) + (lease_until - heartbeat_at) <= clock_timestamp()
    ) OR EXISTS (
        SELECT 1 FROM detent.detent_node WHERE state = 'dead' AND rescued_at IS NULL
    ) AS found
