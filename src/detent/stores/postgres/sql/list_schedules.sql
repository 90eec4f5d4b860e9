-- A page of all schedules, by name.
-- $1 the name before the page, or ''  $2 limit
SELECT * FROM detent.detent_schedule WHERE name > $1 ORDER BY name LIMIT $2
