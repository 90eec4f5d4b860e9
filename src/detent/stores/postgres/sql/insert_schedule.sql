-- Keep a new schedule, unless there is one of that name. In a paused group it is paused.
-- $1 name  $2 group  $3 owner  $4 trigger  $5 calendars  $6 misfire  $7 catch-up limit
-- $8 misfire threshold in seconds  $9 overlap  $10 jitter in seconds  $11 start  $12 end
-- $13 most runs  $14 description  $15 task  $16 queue  $17 lane  $18 priority  $19 args  $20 codec
-- $21 options  $22 params  $23 tags  $24 principal  $25 next slot  $26 last slot  $27 runs
-- $28 paused at  $29 declared at  $30 edited fields  $31 problem
INSERT INTO detent.detent_schedule (
    name, schedule_group, owner, trigger, calendars, misfire, catch_up_limit, misfire_threshold,
    overlap, jitter, start_at, end_at, max_runs, description, task, queue, lane, priority, args,
    codec, options, params, tags, principal, next_fire, due_at, prev_fire, runs, paused_at,
    declared_at, edited, problem, revision, created_at, updated_at
)
VALUES (
    $1, $2, $3, $4, $5::text[], $6, $7, $8::float8 * interval '1 second', $9,
    $10::float8 * interval '1 second', $11, $12, $13, $14, $15, $16, $17, $18, $19, $20, $21, $22,
    $23::text[], $24, $25::timestamptz, $25::timestamptz, $26, $27,
    coalesce($28::timestamptz, (
        SELECT paused_at FROM detent.detent_schedule_group WHERE detent_schedule_group.name = $2
    )),
    -- Of this statement: two looks at the clock would be two moments.
    $29, $30::text[], $31, nextval('detent.detent_schedule_revision'), statement_timestamp(),
    statement_timestamp()
)
ON CONFLICT (name) DO NOTHING
RETURNING *
