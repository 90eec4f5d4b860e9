-- Let all schedules of a group fire again.
-- ?1 group

-- step: forgotten
DELETE FROM detent_schedule_group WHERE name = ?1

-- step: members
-- ?2 now  ?3 revision
UPDATE detent_schedule SET paused_at = NULL, revision = ?3, updated_at = ?2
WHERE schedule_group = ?1 AND paused_at IS NOT NULL
