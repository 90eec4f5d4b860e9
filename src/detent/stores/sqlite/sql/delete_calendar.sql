-- Remove a calendar that no schedule uses.
-- ?1 name

-- step: used
-- ?2 limit
SELECT CAST(json_group_array(name) AS BLOB)
FROM (
    SELECT name FROM detent_schedule AS schedule
    WHERE EXISTS (SELECT 1 FROM json_each(schedule.calendars) WHERE value = ?1)
    ORDER BY name
    LIMIT ?2
)

-- step: gone
DELETE FROM detent_calendar WHERE name = ?1
