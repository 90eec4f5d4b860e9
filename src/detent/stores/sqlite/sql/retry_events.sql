-- Let undeliverable events be tried again as if they were new.
-- ?1 ids as JSON or NULL for any  ?2 sink or NULL for any  ?3 limit  ?4 now
UPDATE detent_event SET parked_at = NULL, due_at = ?4, tries = 0
WHERE id IN (
    SELECT id FROM detent_event
    WHERE id > 0 AND parked_at IS NOT NULL
        AND (?1 IS NULL OR id IN (SELECT value FROM json_each(?1)))
        AND (?2 IS NULL OR sink = ?2)
    ORDER BY id
    LIMIT ?3
)
