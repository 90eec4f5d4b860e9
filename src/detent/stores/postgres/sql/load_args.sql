-- Payloads that were too large to come with the claim.
-- $1 ids
SELECT id, args FROM detent.detent_job WHERE id = ANY($1::uuid[])
