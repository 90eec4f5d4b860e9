-- Hand a business key from one job to the one that replaces it. Returns a row when it worked.
-- $1 key  $2 holder  $3 new holder  $4 task
UPDATE detent.detent_key SET job = $3
WHERE kind = 'unique' AND key = $1 AND scope = $4 AND job = $2
RETURNING job
