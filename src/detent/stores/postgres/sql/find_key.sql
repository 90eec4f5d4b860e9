-- Who holds a key of a task, and what are the arguments of its job?
-- $1 kind  $2 key  $3 task
SELECT job, encode(digest, 'hex') AS digest
FROM detent.detent_key
WHERE kind = $1 AND key = $2 AND scope = $3
