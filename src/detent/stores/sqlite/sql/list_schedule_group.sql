-- A page of the schedules of a group, by name.
-- ?1 group  ?2 the name before the page, or ''  ?3 limit
SELECT * FROM detent_schedule
WHERE schedule_group = ?1 AND name > ?2
ORDER BY name LIMIT ?3
