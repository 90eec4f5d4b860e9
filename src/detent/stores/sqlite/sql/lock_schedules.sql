-- The schedules that are still as they were planned for.
-- ?1 arrays of name and the revision that was seen, as JSON
SELECT CAST(json_group_array(schedule.name) AS BLOB)
FROM json_each(?1) AS plan
CROSS JOIN detent_schedule AS schedule ON schedule.name = json_extract(plan.value, '$[0]')
WHERE schedule.revision = json_extract(plan.value, '$[1]') AND schedule.paused_at IS NULL
