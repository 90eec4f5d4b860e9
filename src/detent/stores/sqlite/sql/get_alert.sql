-- One alert.
-- ?1 id
SELECT id, task, fingerprint, type, message, frame, window_start, first_job, last_job, first_at,
    last_at, count, delivered_at, acked_at, acked_by, trail
FROM detent_alert
WHERE id = ?1
