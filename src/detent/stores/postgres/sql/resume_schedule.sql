-- Let a schedule fire again.
-- $1 name
UPDATE detent.detent_schedule
SET paused_at = NULL, revision = nextval('detent.detent_schedule_revision'),
    updated_at = clock_timestamp()
WHERE name = $1 AND paused_at IS NOT NULL
RETURNING name
