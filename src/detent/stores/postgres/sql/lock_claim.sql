-- Hold a claim for the length of a transaction. No row: it is lost.
-- $1 incarnation  $2 id  $3 fence
SELECT 1 FROM detent.detent_running WHERE id = $2 AND fence = $3 AND node = $1 FOR UPDATE
