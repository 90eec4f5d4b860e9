-- The newest archived jobs that match.
-- ?1 task  ?2 queue  ?3 lowest id  ?4 highest id  ?5 only ids below  ?6 limit  ?7 states as JSON
-- ?8 tag  ?9 key: NULL does not filter
SELECT id
FROM detent_archive
WHERE id >= ?3 AND id <= ?4 AND id < ?5
    AND (?1 IS NULL OR task = ?1) AND (?2 IS NULL OR queue = ?2)
    AND (?7 IS NULL OR state IN (SELECT value FROM json_each(?7)))
    AND (?8 IS NULL OR ?8 IN (SELECT value FROM json_each(tags)))
    AND (?9 IS NULL OR idempotency_key = ?9 OR unique_key = ?9)
ORDER BY id DESC
LIMIT ?6
