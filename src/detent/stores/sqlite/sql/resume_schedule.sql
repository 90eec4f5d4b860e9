-- Let a schedule fire again.
-- ?1 name  ?2 now  ?3 revision
UPDATE detent_schedule SET paused_at = NULL, revision = ?3, updated_at = ?2
WHERE name = ?1 AND paused_at IS NOT NULL
