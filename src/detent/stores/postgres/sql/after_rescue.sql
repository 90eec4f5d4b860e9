-- Note which dead nodes hold nothing any more. End sessions of the others that rest within the
-- transaction of a job, see lock_claim: a frozen process or a lost host would keep its claim from
-- all other nodes. Return how many claims of dead nodes are left, for which it is worth looking
-- again soon.
-- $1 nodes that are known to be lost too
WITH dead AS MATERIALIZED (
    SELECT incarnation FROM detent.detent_node WHERE state = 'dead' AND rescued_at IS NULL
), held AS MATERIALIZED (
    SELECT running.node, count(*) AS claims
    FROM detent.detent_running AS running
    WHERE running.node = ANY (ARRAY(SELECT incarnation FROM dead) || $1::uuid[])
    GROUP BY running.node
), emptied AS (
    -- A dead node cannot claim, so what is empty stays so.
    SELECT node.incarnation
    FROM detent.detent_node AS node
    WHERE node.incarnation = ANY (ARRAY(SELECT incarnation FROM dead))
        AND node.incarnation <> ALL (ARRAY(SELECT held.node FROM held))
    ORDER BY node.incarnation
    FOR UPDATE SKIP LOCKED
), rescued AS (
    UPDATE detent.detent_node SET rescued_at = clock_timestamp()
    WHERE incarnation = ANY (ARRAY(SELECT incarnation FROM emptied))
), ended AS MATERIALIZED (
    SELECT pg_terminate_backend(session.pid)
    FROM held, pg_stat_activity AS session
    WHERE session.datname = current_database()
        AND session.application_name = 'detent ' || held.node
        AND session.state LIKE 'idle in transaction%'
        -- One that is about to commit may do so.
        AND session.state_change < clock_timestamp() - interval '1 second'
)
SELECT coalesce(sum(claims), 0)::integer AS busy, (SELECT count(*) FROM ended) AS ended FROM held
