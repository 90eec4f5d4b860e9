-- Forget which jobs held ordered gates and have ended.
-- ?1 limit
-- ?2 role  ?3 term  ?4 node of the leader who does it; NULL for anybody else
DELETE FROM detent_hold
WHERE gate IN (
    SELECT gate FROM detent_hold AS hold
    WHERE NOT EXISTS (SELECT 1 FROM detent_ready WHERE id = hold.job)
        AND NOT EXISTS (SELECT 1 FROM detent_running WHERE id = hold.job)
        AND NOT EXISTS (SELECT 1 FROM detent_parked WHERE id = hold.job)
        AND (?2 IS NULL OR EXISTS (
        SELECT 1 FROM detent_leader WHERE role = ?2 AND term = ?3 AND node = ?4
    ))
    LIMIT ?1
)
