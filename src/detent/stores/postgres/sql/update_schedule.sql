-- Change a schedule that is still as somebody has seen it. One that joins a paused group is paused.
-- $1 to $31 as in insert_schedule  $32 the revision that was seen
UPDATE detent.detent_schedule
SET schedule_group = $2, owner = $3, trigger = $4, calendars = $5::text[], misfire = $6,
    catch_up_limit = $7, misfire_threshold = $8::float8 * interval '1 second', overlap = $9,
    jitter = $10::float8 * interval '1 second', start_at = $11, end_at = $12, max_runs = $13,
    description = $14, task = $15, queue = $16, lane = $17, priority = $18, args = $19,
    codec = $20, options = $21, params = $22, tags = $23::text[], principal = $24,
    next_fire = $25::timestamptz, due_at = $25::timestamptz, prev_fire = $26, runs = $27,
    paused_at = CASE WHEN schedule_group = $2 THEN $28::timestamptz
        ELSE coalesce($28::timestamptz, (
            SELECT paused_at FROM detent.detent_schedule_group
            WHERE detent_schedule_group.name = $2
        )) END,
    declared_at = $29, edited = $30::text[], problem = $31,
    revision = nextval('detent.detent_schedule_revision'), updated_at = clock_timestamp()
WHERE name = $1 AND revision = $32
RETURNING *
