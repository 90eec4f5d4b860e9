-- Take the roles that nobody leads, keep those that the candidate leads, and say who leads each.
-- $1 candidate  $2 its name  $3 lease in seconds  $4 roles, sorted  $5 the terms it bids (0: none)
-- $6 keys of their advisory locks  $7 whether to try for the lock  $8 whether the session holds it
-- $9 seconds that a leader has to confirm its term after the end of its session
WITH bid AS MATERIALIZED (
    SELECT role, term, CASE WHEN try THEN pg_try_advisory_lock(key) ELSE held END AS locked
    FROM unnest($4::text[], $5::bigint[], $6::bigint[], $7::bool[], $8::bool[])
        AS bid (role, term, key, try, held)
), me AS MATERIALIZED (
    SELECT NOT EXISTS (
        SELECT 1 FROM detent.detent_node WHERE incarnation = $1 AND state = 'dead'
    ) AS alive
), epoch AS MATERIALIZED (
    SELECT detent.detent_epoch() + (last_value >> 40 << 40) AS base FROM detent.detent_fence
), kept AS (
    -- Of the key nothing is changed: it does not wait for transactions that hold the term.
    UPDATE detent.detent_leader AS leader
    SET lease_until = clock_timestamp() + $3::float8 * interval '1 second',
        lease = $3::float8 * interval '1 second',
        backend = CASE WHEN bid.locked THEN pg_backend_pid() END,
        server = pg_postmaster_start_time()
    FROM bid, me
    WHERE leader.role = bid.role AND leader.term = bid.term AND leader.node = $1 AND me.alive
    RETURNING leader.*
), free AS (
    SELECT leader.role, bid.locked, leader.backend
    FROM bid, me, detent.detent_leader AS leader
    WHERE leader.role = bid.role
        AND me.alive
        -- A row cannot be changed twice in one statement.
        AND (leader.node IS DISTINCT FROM $1 OR leader.term <> bid.term)
        AND (
            leader.node IS NULL
            OR leader.node = $1
            OR leader.lease_until <= clock_timestamp()
            OR EXISTS (
                SELECT 1 FROM detent.detent_node AS node
                WHERE node.incarnation = leader.node AND node.state = 'dead'
            )
        )
    ORDER BY leader.role
    -- Skipped: a candidate that was quicker, or a transaction that holds the term.
    FOR UPDATE OF leader SKIP LOCKED
), taken AS (
    UPDATE detent.detent_leader AS leader
    -- One more than the last, above everything that was given in an earlier epoch.
    SET term = greatest(leader.term, epoch.base + (leader.term & ((1::bigint << 40) - 1))) + 1,
        node = $1,
        name = $2,
        since = clock_timestamp(),
        lease_until = clock_timestamp() + $3::float8 * interval '1 second',
        lease = $3::float8 * interval '1 second',
        backend = CASE WHEN free.locked THEN pg_backend_pid() END,
        server = pg_postmaster_start_time()
    FROM free, epoch
    WHERE leader.role = free.role
    RETURNING leader.*, free.backend IS NOT NULL AND NOT free.locked AS over_zombie
), unseen AS (
    -- Its session had the lock that ours has now, so that session has ended. Its process may live:
    -- it has a moment to confirm the term or to stop. On another server, or one that was started
    -- again, a free lock says nothing: the leader may not have noticed yet.
    SELECT leader.role
    FROM bid, me, detent.detent_leader AS leader
    WHERE leader.role = bid.role
        AND me.alive
        AND bid.locked
        AND leader.backend IS NOT NULL
        AND leader.server = pg_postmaster_start_time()
        AND leader.node IS DISTINCT FROM $1
        AND NOT EXISTS (SELECT 1 FROM free WHERE free.role = leader.role)
    ORDER BY leader.role
    FOR NO KEY UPDATE OF leader SKIP LOCKED
), shortened AS (
    UPDATE detent.detent_leader AS leader
    SET lease_until = least(
            leader.lease_until, clock_timestamp() + $9::float8 * interval '1 second'
        ),
        backend = NULL
    FROM unseen
    WHERE leader.role = unseen.role
    RETURNING leader.role, leader.lease_until
), first AS (
    INSERT INTO detent.detent_leader (
        role, term, node, name, since, lease_until, lease, backend, server
    )
    SELECT bid.role, epoch.base + 1, $1, $2, clock_timestamp(),
        clock_timestamp() + $3::float8 * interval '1 second', $3::float8 * interval '1 second',
        CASE WHEN bid.locked THEN pg_backend_pid() END, pg_postmaster_start_time()
    FROM bid, me, epoch
    WHERE me.alive
        AND NOT EXISTS (SELECT 1 FROM detent.detent_leader AS known WHERE known.role = bid.role)
    ON CONFLICT (role) DO NOTHING
    RETURNING *
), led AS (
    SELECT role, term, node, name, since, lease_until, false AS over_zombie FROM kept
    UNION ALL
    SELECT role, term, node, name, since, lease_until, over_zombie FROM taken
    UNION ALL
    SELECT role, term, node, name, since, lease_until, false FROM first
)
SELECT
    bid.role,
    coalesce(led.term, leader.term) AS term,
    -- What was seen at the beginning may be over: a candidate leads only what it has just got.
    CASE WHEN led.role IS NULL THEN nullif(leader.node, $1) ELSE led.node END AS node,
    CASE WHEN led.role IS NULL THEN leader.name ELSE led.name END AS name,
    coalesce(led.since, leader.since) AS since,
    coalesce(led.lease_until, shortened.lease_until, leader.lease_until) AS lease_until,
    date_part('epoch', shortened.lease_until - clock_timestamp()) AS free_in,
    bid.locked,
    led.role IS NOT NULL AS is_mine,
    coalesce(led.over_zombie, false) AS over_zombie
FROM bid
LEFT JOIN led ON led.role = bid.role
LEFT JOIN shortened ON shortened.role = bid.role
LEFT JOIN detent.detent_leader AS leader ON leader.role = bid.role
ORDER BY bid.role
