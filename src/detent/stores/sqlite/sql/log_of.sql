-- The log lines of a job, the oldest first.
-- ?1 id  ?2 limit
SELECT at, attempt, level, message FROM detent_log WHERE id = ?1 ORDER BY line LIMIT ?2
