-- Give a lock more time. Changes nothing when it is no longer this holder's.
-- ?1 name  ?2 holder  ?3 until when
UPDATE detent_lock SET expires_at = ?3 WHERE name = ?1 AND holder = ?2
