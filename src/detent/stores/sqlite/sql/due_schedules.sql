-- Schedules whose next slot has come.
-- ?1 tasks that the asking node knows, as JSON  ?2 now  ?3 limit
SELECT * FROM detent_schedule
WHERE due_at IS NOT NULL AND paused_at IS NULL AND due_at <= ?2
    AND task IN (SELECT value FROM json_each(?1))
ORDER BY due_at, priority DESC
LIMIT ?3
