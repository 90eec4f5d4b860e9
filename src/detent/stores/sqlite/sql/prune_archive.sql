-- Delete archived jobs that have been there for long.
-- ?1 archived then or earlier  ?2 limit
-- ?3 role  ?4 term  ?5 node of the leader who does it; NULL for anybody else
DELETE FROM detent_archive
WHERE id IN (
    SELECT id FROM detent_archive WHERE archived_at <= ?1 ORDER BY archived_at LIMIT ?2
)
    AND (?3 IS NULL OR EXISTS (
        SELECT 1 FROM detent_leader WHERE role = ?3 AND term = ?4 AND node = ?5
    ))
