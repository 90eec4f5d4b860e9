-- Let a schedule fire no more.
-- $1 name
UPDATE detent.detent_schedule
SET paused_at = clock_timestamp(), revision = nextval('detent.detent_schedule_revision'),
    updated_at = clock_timestamp()
WHERE name = $1 AND paused_at IS NULL
RETURNING name
