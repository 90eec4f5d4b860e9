-- Keep a new schedule. In a paused group it is paused.

-- step: group
-- ?1 group
SELECT CAST(json_group_array(paused_at) AS BLOB) FROM detent_schedule_group WHERE name = ?1

-- step: schedule
-- ?1 name  ?2 group  ?3 owner  ?4 trigger  ?5 calendars as JSON  ?6 misfire  ?7 catch-up limit
-- ?8 misfire threshold  ?9 overlap  ?10 jitter  ?11 start  ?12 end  ?13 most runs  ?14 description
-- ?15 task  ?16 queue  ?17 lane  ?18 priority  ?19 args  ?20 codec  ?21 options  ?22 params
-- ?23 tags as JSON  ?24 principal  ?25 next slot  ?26 last slot  ?27 runs  ?28 paused at
-- ?29 declared at  ?30 edited fields as JSON  ?31 problem  ?32 revision  ?33 now
INSERT INTO detent_schedule (
    name, schedule_group, owner, trigger, calendars, misfire, catch_up_limit, misfire_threshold,
    overlap, jitter, start_at, end_at, max_runs, description, task, queue, lane, priority, args,
    codec, options, params, tags, principal, next_fire, due_at, prev_fire, runs, paused_at,
    declared_at, edited, problem, revision, created_at, updated_at
)
VALUES (
    ?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14, ?15, ?16, ?17, ?18, ?19, ?20, ?21,
    ?22, ?23, ?24, ?25, ?25, ?26, ?27, ?28, ?29, ?30, ?31, ?32, ?33, ?33
)
