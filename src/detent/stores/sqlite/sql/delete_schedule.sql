-- Remove a schedule; its slots stay, as history.
-- ?1 name  ?2 the revision that was seen, or NULL for any
-- ?3 role  ?4 term  ?5 node of the leader who does it; NULL for anybody else
DELETE FROM detent_schedule WHERE name = ?1 AND (?2 IS NULL OR revision = ?2)
    AND (?3 IS NULL OR EXISTS (
        SELECT 1 FROM detent_leader WHERE role = ?3 AND term = ?4 AND node = ?5
    ))
