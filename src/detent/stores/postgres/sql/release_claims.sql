-- Put claims back in their old place, uncharged. Claims that are busy elsewhere are left alone.
-- $1 incarnation  $2 ids  $3 fences: one array each
WITH mine AS (
    SELECT held.id
    FROM unnest($2::uuid[], $3::bigint[]) AS said (id, fence)
    CROSS JOIN LATERAL (
        SELECT running.id
        FROM detent.detent_running AS running
        WHERE running.id = said.id AND running.fence = said.fence AND running.node = $1
        FOR UPDATE SKIP LOCKED
    ) AS held
), gone AS (
    DELETE FROM detent.detent_running WHERE id = ANY (ARRAY(SELECT id FROM mine)) RETURNING *
)
INSERT INTO detent.detent_ready (
    id, due_at, attempt, generation, priority, crashes, hooks, lane
)
SELECT id, due_at, attempt, generation, priority, crashes, hooks, lane FROM gone
RETURNING id, lane, priority, due_at
