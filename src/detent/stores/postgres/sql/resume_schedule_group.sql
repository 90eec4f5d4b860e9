-- Let all schedules of a group fire again.
-- $1 group
WITH forgotten AS (
    DELETE FROM detent.detent_schedule_group WHERE name = $1
), member AS (
    SELECT name FROM detent.detent_schedule
    -- A range of one group, since only so the index of groups seems to give the order.
    WHERE schedule_group >= $1 AND schedule_group <= $1 AND paused_at IS NOT NULL
    ORDER BY schedule_group, name
    FOR UPDATE
)
UPDATE detent.detent_schedule AS schedule
SET paused_at = NULL, revision = nextval('detent.detent_schedule_revision'),
    updated_at = clock_timestamp()
FROM member
-- A range of one name: see settle_jobs.
WHERE schedule.name >= member.name AND schedule.name <= member.name
RETURNING schedule.name
