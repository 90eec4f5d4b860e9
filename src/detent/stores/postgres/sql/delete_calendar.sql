-- Remove a calendar that no schedule uses; returns some of those that do.
-- $1 name  $2 limit
WITH used AS MATERIALIZED (
    SELECT name FROM detent.detent_schedule
    WHERE calendars @> ARRAY[$1::text]
    ORDER BY name
    LIMIT $2
), gone AS (
    DELETE FROM detent.detent_calendar WHERE name = $1 AND NOT EXISTS (SELECT 1 FROM used)
)
SELECT name FROM used
