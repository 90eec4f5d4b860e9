-- Who holds a key?
-- $1 kind  $2 key
SELECT job FROM detent.detent_key WHERE kind = $1 AND key = $2
