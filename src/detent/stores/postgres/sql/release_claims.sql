-- Put claims back in their old place, uncharged. Claims that are busy elsewhere are left alone.
-- $1 incarnation  $2 ids  $3 fences: one array each
WITH mine AS (
    SELECT running.id
    FROM detent.detent_running AS running
    JOIN unnest($2::uuid[], $3::bigint[]) AS said (id, fence)
        ON said.id = running.id AND said.fence = running.fence
    WHERE running.node = $1
    ORDER BY running.id
    FOR UPDATE OF running SKIP LOCKED
), gone AS (
    DELETE FROM detent.detent_running WHERE id IN (SELECT id FROM mine) RETURNING *
)
INSERT INTO detent.detent_ready (
    id, due_at, attempt, generation, priority, crashes, hooks, lane, limits
)
SELECT id, due_at, attempt, generation, priority, crashes, hooks, lane, limits FROM gone
RETURNING id, lane, priority, due_at
