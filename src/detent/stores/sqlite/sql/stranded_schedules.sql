-- Schedules that nobody has fired for long, of tasks that the asking node does not know.
-- ?1 tasks that the asking node knows, as JSON  ?2 due then or earlier  ?3 limit
SELECT * FROM detent_schedule
WHERE due_at IS NOT NULL AND paused_at IS NULL AND due_at <= ?2 AND problem IS NULL
    AND task NOT IN (SELECT value FROM json_each(?1))
ORDER BY due_at
LIMIT ?3
