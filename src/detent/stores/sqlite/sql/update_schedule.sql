-- Change a schedule that is still as somebody has seen it.

-- step: known
-- ?1 name
SELECT CAST(json_group_array(json_array(revision, schedule_group, created_at)) AS BLOB)
FROM detent_schedule WHERE name = ?1

-- step: schedule
-- ?1 to ?33 as in insert_schedule
UPDATE detent_schedule
SET schedule_group = ?2, owner = ?3, trigger = ?4, calendars = ?5, misfire = ?6,
    catch_up_limit = ?7, misfire_threshold = ?8, overlap = ?9, jitter = ?10, start_at = ?11,
    end_at = ?12, max_runs = ?13, description = ?14, task = ?15, queue = ?16, lane = ?17,
    priority = ?18, args = ?19, codec = ?20, options = ?21, params = ?22, tags = ?23,
    principal = ?24, next_fire = ?25, due_at = ?25, prev_fire = ?26, runs = ?27, paused_at = ?28,
    declared_at = ?29, edited = ?30, problem = ?31, revision = ?32, updated_at = ?33
WHERE name = ?1
