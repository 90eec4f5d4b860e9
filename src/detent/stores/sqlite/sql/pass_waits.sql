-- Let those who waited for ended jobs wait for what these were waiting for themselves.
-- ?1 an ended job  ?2 what it waited for
UPDATE detent_parked SET waits_for = ?2 WHERE waits_for = ?1
