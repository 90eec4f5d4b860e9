-- Remove locks that nobody gave back and whose time was over long ago; only by a valid leader.
-- ?1 role  ?2 term  ?3 node  ?4 over then or earlier  ?5 limit
DELETE FROM detent_lock
WHERE EXISTS (SELECT 1 FROM detent_leader WHERE role = ?1 AND term = ?2 AND node = ?3)
    AND name IN (
        SELECT name FROM detent_lock WHERE expires_at <= ?4 ORDER BY name LIMIT ?5
    )
