-- The schedules of these names, by name.
-- $1 names
SELECT * FROM detent.detent_schedule WHERE name = ANY($1::text[]) ORDER BY name
