-- The schedules of these names, by name.
-- ?1 names as JSON
SELECT * FROM detent_schedule
WHERE name IN (SELECT value FROM json_each(?1))
ORDER BY name
