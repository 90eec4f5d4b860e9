-- Let the schedules of a group fire no more, also those that join it later.
-- ?1 group  ?2 now

-- step: remembered
INSERT INTO detent_schedule_group (name, paused_at) VALUES (?1, ?2) ON CONFLICT DO NOTHING

-- step: members
-- ?3 revision
UPDATE detent_schedule SET paused_at = ?2, revision = ?3, updated_at = ?2
WHERE schedule_group = ?1 AND paused_at IS NULL
