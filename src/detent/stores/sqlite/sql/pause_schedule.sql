-- Let a schedule fire no more.
-- ?1 name  ?2 now  ?3 revision
UPDATE detent_schedule SET paused_at = ?2, revision = ?3, updated_at = ?2
WHERE name = ?1 AND paused_at IS NULL
