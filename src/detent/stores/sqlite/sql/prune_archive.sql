-- Delete archived jobs that have been there for long.
-- ?1 archived then or earlier  ?2 limit
DELETE FROM detent_archive
WHERE id IN (
    SELECT id FROM detent_archive WHERE archived_at <= ?1 ORDER BY archived_at LIMIT ?2
)
