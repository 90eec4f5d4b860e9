-- Renew the lease of a living node. Never creates or revives one: no row means "you are dead".
-- $1 incarnation  $2 lease in seconds  $3 load as JSON, NULL keeps the old
WITH me AS (
    UPDATE detent.detent_node
    SET heartbeat_at = clock_timestamp(),
        lease_until = clock_timestamp() + $2::float8 * interval '1 second',
        steady_since = CASE
            WHEN clock_timestamp() BETWEEN heartbeat_at
                AND heartbeat_at + (lease_until - heartbeat_at) / 2
            THEN steady_since ELSE clock_timestamp()
        END,
        load = coalesce($3::text::jsonb, load)
    WHERE incarnation = $1 AND state <> 'dead'
    RETURNING state
), witness AS (
    -- See expire_nodes. This node has seen at least this answer.
    SELECT coalesce(min(steady_since), clock_timestamp()) AS since
    FROM detent.detent_node
    WHERE state <> 'dead'
        AND clock_timestamp() BETWEEN heartbeat_at
            AND heartbeat_at + (lease_until - heartbeat_at) / 2
)
SELECT
    EXISTS (SELECT 1 FROM me) AS alive,
    clock_timestamp() AS now,
    (SELECT count(*) FROM detent.detent_node
     WHERE state = 'active' AND lease_until > clock_timestamp()) AS nodes,
    coalesce((SELECT state = 'draining' FROM me), false) AS draining,
    (SELECT date_part(
        'epoch',
        min(greatest(lease_until, witness.since + (lease_until - heartbeat_at)))
            - clock_timestamp()
     )
     FROM detent.detent_node, witness
     WHERE state <> 'dead' AND incarnation <> $1) AS next_end,
    (SELECT json_object_agg(name, slots)::text FROM detent.detent_queue
     WHERE slots IS NOT NULL) AS slots,
    ARRAY(SELECT name FROM detent.detent_queue WHERE limited ORDER BY name) AS limited
