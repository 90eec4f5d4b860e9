-- When is the first schedule due? The index begins with it.
-- ?1 tasks that the asking node knows, as JSON
SELECT due_at FROM detent_schedule
-- Every one, but said so that the index is walked from its beginning.
WHERE due_at IS NOT NULL AND paused_at IS NULL AND due_at > -9223372036854775807
    AND task IN (SELECT value FROM json_each(?1))
ORDER BY due_at
LIMIT 1
