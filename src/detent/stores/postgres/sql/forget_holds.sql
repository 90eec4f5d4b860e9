-- Forget which jobs held ordered gates and have ended.
-- $1 limit
-- $2 role  $3 term  $4 node of the leader who does it; NULL for anybody else
WITH leader AS MATERIALIZED (
    SELECT 1 FROM detent.detent_leader
    WHERE role = $2::text AND term = $3::bigint AND node = $4::uuid
    FOR KEY SHARE
), ended AS (
    SELECT hold.gate, hold.job
    FROM detent.detent_hold AS hold
    -- OFFSET: look-ups by id, whatever the statistics say.
    LEFT JOIN LATERAL (
        SELECT true AS lives FROM detent.detent_ready WHERE id = hold.job OFFSET 0
    ) AS ready ON true
    LEFT JOIN LATERAL (
        SELECT true AS lives FROM detent.detent_running WHERE id = hold.job OFFSET 0
    ) AS running ON true
    LEFT JOIN LATERAL (
        SELECT true AS lives FROM detent.detent_parked WHERE id = hold.job OFFSET 0
    ) AS parked ON true
    WHERE coalesce(ready.lives, running.lives, parked.lives) IS NULL
        AND ($2::text IS NULL OR EXISTS (SELECT 1 FROM leader))
    ORDER BY hold.gate
    LIMIT $1
    FOR UPDATE OF hold SKIP LOCKED
)
DELETE FROM detent.detent_hold AS hold
USING ended
-- Another job may hold it by now.
WHERE hold.gate = ended.gate AND hold.job = ended.job
RETURNING hold.gate
