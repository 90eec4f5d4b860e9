-- End sessions of dead nodes that rest within the transaction of a job, see lock_claim: a frozen
-- process or a lost host would keep its claim from everybody else. Return how many claims of dead
-- nodes are left, for which it is worth looking again soon.
WITH dead AS MATERIALIZED (
    SELECT running.node, count(*) AS claims
    FROM detent.detent_running AS running
    WHERE NOT EXISTS (
        SELECT 1 FROM detent.detent_node AS node
        WHERE node.incarnation = running.node AND node.state <> 'dead'
    )
    GROUP BY running.node
), ended AS MATERIALIZED (
    SELECT pg_terminate_backend(session.pid)
    FROM dead, pg_stat_activity AS session
    WHERE session.datname = current_database()
        AND session.application_name = 'detent ' || dead.node
        AND session.state LIKE 'idle in transaction%'
        -- One that is about to commit may do so.
        AND session.state_change < clock_timestamp() - interval '1 second'
)
SELECT coalesce(sum(claims), 0)::integer AS busy, (SELECT count(*) FROM ended) AS ended FROM dead
