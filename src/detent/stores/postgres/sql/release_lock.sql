-- Give a lock back. No row: it was no longer this holder's.
-- $1 name  $2 holder
DELETE FROM detent.detent_lock WHERE name = $1 AND holder = $2 RETURNING name
