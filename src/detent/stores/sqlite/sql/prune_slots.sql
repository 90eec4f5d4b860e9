-- Delete slots whose time is over, unless their job still lives.
-- ?1 written then or earlier  ?2 limit
DELETE FROM detent_slot
WHERE (schedule, slot) IN (
    SELECT old.schedule, old.slot FROM detent_slot AS old
    WHERE old.fired_at <= ?1
        AND NOT EXISTS (SELECT 1 FROM detent_running WHERE id = old.job)
        AND NOT EXISTS (SELECT 1 FROM detent_ready WHERE id = old.job)
        AND NOT EXISTS (SELECT 1 FROM detent_parked WHERE id = old.job)
    ORDER BY old.fired_at
    LIMIT ?2
)
