-- Give back the business keys of jobs that have ended. A replacement that ended while it still
-- waited returns its key to the job it was to replace, which runs on.
-- $1 ids  $2 the job that each waited for, or NULL: one array each
WITH ended AS MATERIALIZED (
    SELECT said.id, said.waits_for, job.unique_key
    FROM unnest($1::uuid[], $2::uuid[]) AS said (id, waits_for)
    CROSS JOIN LATERAL (
        SELECT unique_key FROM detent.detent_job WHERE detent_job.id = said.id OFFSET 0
    ) AS job
), returned AS (
    UPDATE detent.detent_key AS held SET job = ended.waits_for
    FROM ended
    WHERE ended.waits_for IS NOT NULL AND held.job = ended.id
        -- By an array, so that the keys are looked up, and not all keys read.
        AND held.kind = 'unique' AND held.key = ANY (ARRAY(SELECT unique_key FROM ended))
)
DELETE FROM detent.detent_key
WHERE kind = 'unique' AND key = ANY (ARRAY(SELECT unique_key FROM ended WHERE waits_for IS NULL))
    AND job = ANY (ARRAY(SELECT id FROM ended WHERE waits_for IS NULL))
