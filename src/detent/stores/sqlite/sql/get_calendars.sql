-- Calendars by name.

-- step: all
SELECT name, data FROM detent_calendar ORDER BY name

-- step: some
-- ?1 names as JSON
SELECT name, data FROM detent_calendar
WHERE name IN (SELECT value FROM json_each(?1))
ORDER BY name
