-- Delete slots whose time is over, unless their job still lives.
-- ?1 written then or earlier  ?2 limit
-- ?3 role  ?4 term  ?5 node of the leader who does it; NULL for anybody else
DELETE FROM detent_slot
WHERE (schedule, slot) IN (
    SELECT old.schedule, old.slot FROM detent_slot AS old
    WHERE old.fired_at <= ?1 AND (?3 IS NULL OR EXISTS (
        SELECT 1 FROM detent_leader WHERE role = ?3 AND term = ?4 AND node = ?5
    ))
        AND NOT EXISTS (SELECT 1 FROM detent_running WHERE id = old.job)
        AND NOT EXISTS (SELECT 1 FROM detent_ready WHERE id = old.job)
        AND NOT EXISTS (SELECT 1 FROM detent_parked WHERE id = old.job)
    ORDER BY old.fired_at
    LIMIT ?2
)
