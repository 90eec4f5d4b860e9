-- Hold a claim for the length of a transaction. No row: it is lost. No rescue and no end passes
-- this lock; progress, log lines and cancel requests do.
-- $1 incarnation  $2 id  $3 fence
SELECT 1 FROM detent.detent_running
WHERE id = $2 AND fence = $3 AND node = $1
FOR NO KEY UPDATE
