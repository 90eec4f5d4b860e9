-- Whether there is a schedule of that name.
-- ?1 name
SELECT CAST(json_group_array(name) AS BLOB) FROM detent_schedule WHERE name = ?1
