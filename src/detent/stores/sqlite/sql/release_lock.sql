-- Give a lock back. Changes nothing when it was no longer this holder's.
-- ?1 name  ?2 holder
DELETE FROM detent_lock WHERE name = ?1 AND holder = ?2
