-- All that is known about some archived jobs.
-- $1 ids
SELECT
    known.*,
    0 AS crashes,
    false AS cancel_requested,
    false AS cancel_too_late,
    NULL::real AS progress,
    NULL::text AS progress_message
FROM unnest($1::uuid[]) AS wanted (id)
-- One by one: with a list, a plan made for a small table would read it whole and be kept.
CROSS JOIN LATERAL (
    SELECT * FROM detent.detent_archive WHERE detent_archive.id = wanted.id OFFSET 0
) AS known
