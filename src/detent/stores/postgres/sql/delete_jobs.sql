-- Delete ended jobs with all that belongs to them. Jobs that have not ended are left alone.
-- $1 ids
WITH archived AS (
    DELETE FROM detent.detent_archive WHERE id = ANY($1::uuid[]) RETURNING id
), ended AS (
    DELETE FROM detent.detent_outcome WHERE id = ANY($1::uuid[]) RETURNING id
), job AS (
    DELETE FROM detent.detent_job WHERE id = ANY (ARRAY(SELECT id FROM ended))
    RETURNING id, idempotency_key
), attempts AS (
    DELETE FROM detent.detent_attempt WHERE id = ANY (ARRAY(SELECT id FROM ended))
), lines AS (
    DELETE FROM detent.detent_log WHERE id = ANY (ARRAY(SELECT id FROM ended))
), signals AS (
    DELETE FROM detent.detent_signal WHERE id = ANY (ARRAY(SELECT id FROM ended))
), progress AS (
    DELETE FROM detent.detent_progress WHERE id = ANY (ARRAY(SELECT id FROM ended))
), keys AS (
    DELETE FROM detent.detent_key
    WHERE kind = 'idempotency' AND key = ANY (ARRAY(SELECT idempotency_key FROM job))
        AND job = ANY (ARRAY(SELECT id FROM job))
)
SELECT id FROM ended UNION SELECT id FROM archived
