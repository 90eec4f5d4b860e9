-- Forget which jobs held ordered gates and have ended.
-- ?1 limit
DELETE FROM detent_hold
WHERE gate IN (
    SELECT gate FROM detent_hold AS hold
    WHERE NOT EXISTS (SELECT 1 FROM detent_ready WHERE id = hold.job)
        AND NOT EXISTS (SELECT 1 FROM detent_running WHERE id = hold.job)
        AND NOT EXISTS (SELECT 1 FROM detent_parked WHERE id = hold.job)
    LIMIT ?1
)
