-- Alerts, the newest first, for people.
-- ?1 task or NULL for any  ?2 whether they were acknowledged (0 or 1), or NULL for both  ?3 limit
SELECT id, task, fingerprint, type, message, frame, window_start, first_job, last_job, first_at,
    last_at, count, delivered_at, acked_at, acked_by, trail
FROM detent_alert
WHERE id > 0 AND (?1 IS NULL OR task = ?1) AND (?2 IS NULL OR (acked_at IS NOT NULL) = ?2)
ORDER BY id DESC
LIMIT ?3
