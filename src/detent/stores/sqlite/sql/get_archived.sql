-- All that is known about some archived jobs.
-- ?1 ids in one blob
SELECT known.*, 0 AS crashes, false AS cancel_requested, false AS cancel_too_late, NULL AS progress, NULL AS progress_message
FROM detent_ids(?1) AS wanted
CROSS JOIN detent_archive AS known ON known.id = wanted.id
