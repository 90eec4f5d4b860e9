-- Give up a term; the row keeps the number.
-- ?1 role  ?2 term  ?3 candidate  ?4 now
UPDATE detent_leader SET node = NULL, name = NULL, lease_until = ?4
WHERE role = ?1 AND term = ?2 AND node = ?3
