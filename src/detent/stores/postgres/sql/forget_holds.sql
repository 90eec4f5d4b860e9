-- Forget which jobs held ordered gates and have ended.
-- $1 limit
WITH ended AS (
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
    ORDER BY hold.gate
    LIMIT $1
    FOR UPDATE OF hold SKIP LOCKED
)
DELETE FROM detent.detent_hold AS hold
USING ended
-- Another job may hold it by now.
WHERE hold.gate = ended.gate AND hold.job = ended.job
RETURNING hold.gate
