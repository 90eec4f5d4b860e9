-- Note the ends of jobs, so that nobody looks at their slots again; the oldest of a schedule.
-- ?1 schedule  ?2 how many
UPDATE detent_slot SET live = 0
WHERE schedule = ?1 AND slot IN (
    SELECT old.slot
    FROM (
        SELECT slot, job FROM detent_slot WHERE schedule = ?1 AND live ORDER BY fired_at LIMIT ?2
    ) AS old
    WHERE NOT EXISTS (SELECT 1 FROM detent_running WHERE id = old.job)
        AND NOT EXISTS (SELECT 1 FROM detent_ready WHERE id = old.job)
        AND NOT EXISTS (SELECT 1 FROM detent_parked WHERE id = old.job)
)
