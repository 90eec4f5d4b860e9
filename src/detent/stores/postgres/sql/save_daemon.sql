-- Keep a report on a daemon, under a valid term.
-- $1 role  $2 term  $3 node  $4 daemon  $5 state  $6 name of the node  $7 restarts  $8 error
WITH leader AS MATERIALIZED (
    SELECT term, node FROM detent.detent_leader
    WHERE role = $1 AND term = $2 AND node = $3
    FOR KEY SHARE
)
INSERT INTO detent.detent_daemon AS known (
    name, state, node, node_name, term, since, restarts, last_error, failed_at
)
SELECT $4::text, $5::text, node, $6::text, term, clock_timestamp(), $7::integer, $8::text,
    CASE WHEN $8::text IS NOT NULL THEN clock_timestamp() END
FROM leader
ON CONFLICT (name) DO UPDATE
SET state = excluded.state,
    node = excluded.node,
    node_name = excluded.node_name,
    term = excluded.term,
    since = excluded.since,
    restarts = excluded.restarts,
    last_error = coalesce(excluded.last_error, known.last_error),
    failed_at = coalesce(excluded.failed_at, known.failed_at)
RETURNING name
