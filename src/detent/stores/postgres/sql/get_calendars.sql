-- Calendars by name.
-- $1 names, or NULL for all
SELECT name, data FROM detent.detent_calendar
WHERE $1::text[] IS NULL OR name = ANY($1::text[])
ORDER BY name
