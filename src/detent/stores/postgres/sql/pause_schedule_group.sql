-- Let the schedules of a group fire no more, also those that join it later.
-- $1 group
WITH remembered AS (
    INSERT INTO detent.detent_schedule_group (name, paused_at) VALUES ($1, clock_timestamp())
    ON CONFLICT (name) DO NOTHING
), member AS (
    -- In the order in which firers lock them.
    SELECT name FROM detent.detent_schedule
    -- A range of one group, since only so the index of groups seems to give the order.
    WHERE schedule_group >= $1 AND schedule_group <= $1 AND paused_at IS NULL
    ORDER BY schedule_group, name
    FOR UPDATE
)
UPDATE detent.detent_schedule AS schedule
SET paused_at = clock_timestamp(), revision = nextval('detent.detent_schedule_revision'),
    updated_at = clock_timestamp()
FROM member
-- A range of one name: see settle_jobs.
WHERE schedule.name >= member.name AND schedule.name <= member.name
RETURNING schedule.name
